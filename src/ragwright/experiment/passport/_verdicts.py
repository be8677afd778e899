"""Verdicts of judges on the rows of a set: free measures, recorded values, files of verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import Score, TestsetError, count_noun, value_hash
from ...measure import (
    Measure,
    MeasureScale,
    MeasureSetup,
    parse_measures,
    score_rows,
)
from ...testsets import open_bytes, records_of
from ..evaluations import Evaluation, judge_identity, open_results
from ._passport import JudgeKind
from ._people import PeopleSet
from .sets import MappedColumn, read_graded_rows

FREE = (
    "KPrecision(content+bigrams)",
    "KPrecision(content)",
    "KPrecision",
    "KF1(content)",
    "TokenF1",
    "ROUGE(L)",
    "ROUGE(L,recall)",
    "Contains",
    "ExactMatch",
)
"""Free measures that a passport computes by default, where the rows have their fields."""

_IDS = ("id", "row_id", "row", "query_id")
_VALUES = ("verdict", "score", "value", "label", "rating", "grade")
_LEAST = 0.5  # share of the rows that a free measure must score


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of one judge.

    Attributes:
        name: Its name in the passport.
        kind: Free measure, measure of a model, or recorded.
        scores: Row id -> score in any state; of a pair, the second answer's minus the first's.
        scale: Range and direction; None if unknown.
        measure: Text of the measure; empty for recorded verdicts.
        model: The chat model; empty if none was called.
        identity: Everything that determines the verdicts.
        cost: Cost of 100 rows; 0 if free, None if unknown.
        run: Stored run of the scores.
    """

    name: str
    kind: JudgeKind
    scores: Mapping[str, Score]
    scale: MeasureScale | None = None
    measure: str = ""
    model: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    cost: float | None = None
    run: str = ""

    def upward(self) -> dict[str, float]:
        """Row id -> value, higher being better; rows without a value are left out."""
        sign = 1.0 if self.scale is None or self.scale.higher_is_better else -1.0
        return {
            key: sign * score.value for key, score in self.scores.items() if score.value is not None
        }


def free_verdicts(
    people: PeopleSet, measures: Sequence[Measure] = (), setup: MeasureSetup | None = None
) -> list[Verdicts]:
    """Score the rows by measures that call no model.

    Args:
        people: The set.
        measures: Measures without a model; by default those of :data:`FREE` that score at least
            half of the rows, and not all alike.
        setup: Language and cues.
    """
    chosen = tuple(measures) or parse_measures(", ".join(FREE))
    rows = [row for item in people.rated for row in (item.row, item.second) if row is not None]
    by_row = {
        row.id: scores for row, scores in zip(rows, score_rows(rows, chosen, setup), strict=True)
    }
    verdicts = []
    for at, measure in enumerate(chosen):
        scores = score_pairs(people, {key: scores[at] for key, scores in by_row.items()})
        scored = sum(score.value is not None for score in scores.values())
        differ = len({score.value for score in scores.values()}) > 1
        if not measures and (scored < _LEAST * len(scores) or not differ):
            continue
        verdicts.append(
            Verdicts(
                str(measure),
                "free",
                scores,
                scale_of(people, measure.known_scale),
                str(measure),
                identity={"measure": str(measure)},
                cost=0.0,
            )
        )
    return verdicts


def score_pairs(people: PeopleSet, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Row id -> score; of a pair the difference, if both answers have a value."""
    combined = {}
    for item in people.rated:
        score = scores.get(item.row.id)
        if score is None:
            continue
        if item.second is not None:
            second = scores.get(item.second.id)
            if second is None:
                continue
            if score.value is not None:
                score = (
                    second
                    if second.value is None
                    else Score(score.measure, "scored", second.value - score.value)
                )
        combined[item.row.id] = score
    return combined


def scale_of(people: PeopleSet, scale: MeasureScale | None) -> MeasureScale | None:
    """The scale of verdicts: for pairs that of differences."""
    if scale is None or not people.pairs:
        return scale
    width = scale.width
    return None if width is None else MeasureScale(-width, width, scale.higher_is_better)


def read_recorded_verdicts(people: PeopleSet) -> list[Verdicts]:
    """The verdicts of other judges that the set itself holds, in the order of their names."""
    names = dict.fromkeys(name for item in people.rated for name in item.verdicts)
    return [
        _read_recorded(
            name,
            {item.row.id: item.verdicts[name] for item in people.rated if name in item.verdicts},
            people.scales.get(name),
        )
        for name in names
    ]


def _read_recorded(
    name: str, values: Mapping[str, float], ends: tuple[float, float] | None
) -> Verdicts:
    scores = {key: Score(name, "scored", value) for key, value in values.items()}
    identity = {"verdicts": name, "hash": value_hash(sorted(values.items()))}
    scale = None if ends is None else MeasureScale(*ends)
    return Verdicts(name, "recorded", scores, scale, identity=identity)


def verdicts_in(
    text: str, people: PeopleSet, columns: Sequence[MappedColumn] = (), root: Path = Path()
) -> tuple[list[Verdicts], tuple[str, ...]]:
    """Read recorded verdicts, and notes on them.

    Args:
        text: A file of qrels (for a set of qrels), a file of scores by ``score -o``, a file of rows
            with ids and numbers, or a run of the project.
        people: The set; the file uses its row ids.
        columns: For rows: the columns with id and verdicts; by default ``id`` and every column of
            numbers.
        root: Folder of the project, for runs.

    Raises:
        TestsetError: The file cannot be read, or none of its ids is in the set.
    """
    path = Path(text)
    if people.name == "qrels":
        values = {key: float(grade) for key, (_, grade) in read_graded_rows(text).items()}
        verdicts = [_read_recorded(path.stem, values, None)]
    elif is_run(text):
        (evaluation,) = open_results(root, (text,))
        verdicts = _verdicts_of_evaluation(evaluation, people)
    else:
        verdicts = _verdicts_of_records(path, columns)
    known = {item.row.id for item in people.rated}
    used = {key for judge in verdicts for key in judge.scores} & known
    foreign = {key for judge in verdicts for key in judge.scores} - known
    if not used:
        examples = sorted(foreign)[:2], sorted(known)[:2]
        raise TestsetError(
            f"none of the {count_noun(len(foreign), 'id')} of the verdicts is in the set",
            where=text,
            hint=f"ids of the file: {', '.join(examples[0]) or 'none'}; of the set: "
            f"{', '.join(examples[1])}",
        )
    notes = []
    if foreign:
        notes.append(f"{text}: {count_noun(len(foreign), 'verdict')} of rows that the set lacks")
    if len(used) < len(known):
        notes.append(
            f"{text}: no verdict for {count_noun(len(known) - len(used), 'row')} of the set"
        )
    return verdicts, tuple(notes)


def is_run(text: str) -> bool:
    """True for a run of the project or a file of scores, False for another file."""
    path = Path(text)
    if not path.exists():
        return True
    with open_bytes(path) as file:
        head = file.readline(1 << 20)
    try:
        body = json.loads(head)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "ragwright_results" in body


def _verdicts_of_evaluation(evaluation: Evaluation, people: PeopleSet) -> list[Verdicts]:
    """The scores of an evaluation, one judge per measure.

    Raises:
        TestsetError: It scored another answer than people.
    """
    answers = {item.row.id: item.row.response for item in people.rated}
    others = [
        result.row_id
        for result in evaluation.results
        if result.row is not None
        and None not in (own := (answers.get(result.row_id), result.row.response))
        and own[0] != own[1]
    ]
    if others:
        raise TestsetError(
            f"people judged another answer of row {others[0]!r} than the run scored",
            where=evaluation.name,
            hint="score the rows that people judged",
        )
    verdicts = []
    for summary in evaluation.summaries:
        scores = {
            result.row_id: score
            for result in evaluation.results
            for score in result.scores
            if score.measure == summary.measure
        }
        identity = judge_identity(evaluation, summary.measure)
        model = str(identity.get("judge", {}).get("model", ""))
        verdicts.append(
            Verdicts(
                f"{summary.measure} by {model}"
                if model
                else f"{summary.measure} in {evaluation.name}",
                "recorded",
                score_pairs(people, scores),
                scale_of(people, summary.scale),
                summary.measure,
                model,
                identity or {"verdicts": evaluation.name},
                run=evaluation.name,
            )
        )
    return verdicts


def _verdicts_of_records(path: Path, columns: Sequence[MappedColumn]) -> list[Verdicts]:
    """Columns of numbers in a file of rows."""
    mapped = [column for column in columns if column.role == "verdict"]
    id_column = next((column.column for column in columns if column.role == "id"), "")
    values: dict[str, dict[str, float]] = {}
    seen: dict[str, None] = {}
    for where, record in records_of(path):
        seen.update(dict.fromkeys(record))
        key = next(
            (record[name] for name in (id_column, *_IDS) if record.get(name) not in (None, "")),
            None,
        )
        if key is None:
            raise TestsetError(
                "the row has no id",
                where=where,
                hint="name the column id, or map it: --map COLUMN=id",
            )
        for name, value in _numbers_in(record, mapped, id_column, where):
            if str(key) in values.setdefault(name, {}):
                raise TestsetError(f"{key!r} has two verdicts under {name!r}", where=where)
            values[name][str(key)] = value
    if not values:
        raise TestsetError(
            "there is no column of numbers",
            where=str(path),
            hint=f"its columns: {', '.join(seen) or 'none'}; map one: --map COLUMN=verdict",
        )
    ends = {column.name: column.ends for column in mapped}
    alone = len(values) == 1 and next(iter(values)).casefold() in _VALUES
    return [
        _read_recorded(path.stem if alone else name, of_name, ends.get(name))
        for name, of_name in values.items()
    ]


def _numbers_in(
    record: Mapping[str, Any], mapped: Sequence[MappedColumn], id_column: str, where: str
) -> Iterable[tuple[str, float]]:
    if mapped:
        for column in mapped:
            number = column.number(record.get(column.column), where)
            if number is not None:
                yield column.name, number
        return
    for name, value in record.items():
        if name in (id_column, *_IDS) or isinstance(value, list | dict) or value is None:
            continue
        try:
            yield name, float(value)
        except ValueError:
            continue
