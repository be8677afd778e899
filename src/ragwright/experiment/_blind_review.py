"""Blind review of answers: a sheet without system names, a separate key, a strict reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import (
    Row,
    TestsetError,
    count_noun,
    csv_lines,
    list_names,
    make_plain,
    replace_text,
    text_hash,
    value_hash,
)
from ..measure import (
    Measure,
    Rubric,
    load_rubrics,
    parse_measure,
    parse_measures,
    rubrics_of,
    set_rubric_scales,
)
from ..project import Project
from ..testsets import read_rows, records_of
from ._clusters import clusters_of_rows
from ._given import open_results, read_stored_or_given
from ._passport_people import Dimension, PeopleSet, RatedAnswer
from ._results import Evaluation, read_plain
from ._stored_runs import find_run

_SHOWN = ("user_input", "reference", "retrieved_contexts", "response")
_OTHERS = frozenset({"item", "levels", "comment", "rater", *_SHOWN})
"""Columns of a sheet that hold no score."""

_UNLIKE = frozenset({"JudgedPrecision"})
"""Measures whose rubric is about single passages, not about the reviewed answer."""

_HEADER = re.compile(r"(?P<name>.+) \((?P<low>-?\d+)-(?P<high>-?\d+)\)")


@dataclass(frozen=True, slots=True)
class ReviewKey:
    """Key of a sheet: item -> (system, row id). Stored separately.

    ``shown`` holds item -> :func:`answer_hash` of the reviewed texts, so that labels are only
    compared with scores of the same answer.
    """

    answers: Mapping[str, tuple[str, str]]
    measures: tuple[str, ...]
    seed: int = 0
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Label:
    """One person's label of one answer by one measure."""

    system: str
    row_id: str
    measure: str
    value: float
    rater: str = ""


def blind_sheet(
    systems: Mapping[str, Iterable[Row]],
    measures: Sequence[Measure],
    *,
    seed: int = 0,
    rubrics: Mapping[str, Rubric] | None = None,
) -> tuple[list[dict[str, Any]], ReviewKey]:
    """Return all answers of all systems in one shuffled order, and the key to the systems.

    An answer is an object with ``item``, the shown texts, ``levels`` (the meaning of each score),
    one empty field per measure (its scale in the name), ``comment``. The order is that of hashes of
    seed, row and system: answers to one question are apart, and items do not reveal the system.

    Args:
        systems: Name of a system -> rows with its answers.
        measures: Measures to score; each must have whole numbers at both ends of its scale.
        seed: Seed of the order.
        rubrics: Custom rubrics, in addition to the shipped ones; people score by the same levels as
            the judge.

    Raises:
        TestsetError: No answer, a row twice in a system, or a measure without a scale.
    """
    measures = set_rubric_scales(measures, rubrics or {})
    empty = {**{_column_of(measure): "" for measure in measures}, "comment": ""}
    levels = "\n\n".join(_level_descriptions(measure, rubrics or {}) for measure in measures)
    by_place: dict[str, tuple[str, Row]] = {}
    for system, rows in systems.items():
        for row in rows:
            place = text_hash(f"{seed}\x00{row.id}\x00{system}")
            if place in by_place:
                raise TestsetError(f"row {row.id!r} of {system!r} occurs twice")
            if row.response_text:
                by_place[place] = (system, row)
    if not by_place or not measures:
        raise TestsetError(
            "there is nothing to review", hint="give rows with a response, and a measure"
        )
    answers = {str(at): by_place[place] for at, place in enumerate(sorted(by_place), 1)}
    items = [
        {"item": item, **{name: getattr(row, name) for name in _SHOWN}, "levels": levels, **empty}
        for item, (_, row) in answers.items()
    ]
    return items, ReviewKey(
        {item: (system, row.id) for item, (system, row) in answers.items()},
        tuple(map(str, measures)),
        seed,
        {item: answer_hash(row) for item, (_, row) in answers.items()},
    )


def _column_of(measure: Measure) -> str:
    low, high = measure.definition.low, measure.definition.high
    if high is None or low != round(low) or high != round(high):
        raise TestsetError(
            f"people cannot score {measure}: its scale has no whole ends",
            hint="review by measures with a scale, such as 1-5 or 0-1",
        )
    return f"{measure} ({low:g}-{high:g})"


def _level_descriptions(measure: Measure, own: Mapping[str, Rubric]) -> str:
    rubrics = () if measure.name in _UNLIKE else rubrics_of(measure, own)
    head = _column_of(measure)
    if len(rubrics) != 1:
        return f"{head}: {measure.definition.summary}"
    rubric = rubrics[0]
    lines = [f"{level}: {rubric.levels[level].strip()}" for level in sorted(rubric.levels, key=int)]
    return "\n".join([f"{head}: {' '.join(rubric.task.split())}", *lines])


def answer_hash(row: Row) -> str:
    """Hash the reviewed texts: the question, the answer and its passages."""
    return value_hash([row.user_input, row.response, list(row.retrieved_contexts)])


def write_blind_sheet(
    folder: str | Path, names: Sequence[str], measures: str, path: Path, *, seed: int = 0
) -> tuple[int, Path]:
    """Write a sheet for people to score answers without knowing the system, and its key beside it.

    Args:
        folder: The project.
        names: Runs, or files of rows.
        measures: Measures for people to score, separated by commas.
        path: The sheet, as CSV; the key is ``NAME.key.json``.
        seed: Seed of the order.

    Returns:
        The number of answers, and the file of the key.

    Raises:
        TestsetError: One of the files exists, nothing is written; or there are no answers.
        MeasureError: A measure is unknown.
        StoreError: A name is neither a file nor a run.
    """
    key_file = path.with_suffix(".key.json")
    for file in (path, key_file):  # before anything is read: the file may contain someone's work
        if file.exists():
            raise TestsetError(
                "the file exists already; nothing was changed",
                where=str(file),
                hint="choose another name with -o, or move the file away",
            )
    parsed, rubrics = parse_measures(measures), load_rubrics(Path(folder))
    systems: dict[str, Iterable[Row]] = {
        name: read_rows(name) for name in names if Path(name).is_file()
    }
    if len(systems) < len(names):
        with Project.open(folder) as project:
            for name in names:
                if name not in systems:  # by its id, so that `latest` keeps its meaning
                    run = find_run(project.runs, name)
                    systems[run] = tuple(read_stored_or_given(project.runs, run).rows)
    items, key = blind_sheet(systems, parsed, seed=seed, rubrics=rubrics)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(key_file, json.dumps(make_plain(key), ensure_ascii=False, indent=1) + "\n")
    lines = [list(items[0]), *([_cell_text(value) for value in item.values()] for item in items)]
    replace_text(path, "".join(csv_lines(lines, end="\r\n")), encoding="utf-8-sig")
    return len(items), key_file


def _cell_text(value: Any) -> str:
    """Return passages as numbered paragraphs; anything else as text."""
    if isinstance(value, tuple):
        return "\n\n".join(f"[{n}] {text}" for n, text in enumerate(value, 1))
    return str(value)


def read_key(path: str | Path) -> ReviewKey:
    """Read the key that :func:`write_blind_sheet` wrote.

    Raises:
        TestsetError: It is missing or not a key.
    """
    try:
        return read_plain(ReviewKey, json.loads(Path(path).read_text("utf-8")))
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except (ValueError, RecursionError) as error:
        raise TestsetError(
            "this is not the key of a review", where=str(path), hint="give the key of the sheet"
        ) from error


def read_labels(path: str | Path, key: ReviewKey) -> list[Label]:
    """Read the labels in a filled-in sheet; empty fields are skipped.

    The person is the column ``rater``, else the file's name.

    Raises:
        TestsetError: An item or a column is unknown, or a value is not a whole number on the scale;
            file and line are named. Or the sheet has no score.
    """
    source = Path(path)
    labels: list[Label] = []
    for where, record in records_of(source):
        item = str(record.get("item"))
        if item not in key.answers:
            raise TestsetError(
                f"item {item!r} is not in the key", where=where, hint="use the key of this sheet"
            )
        person = str(record.get("rater") or source.stem)
        for column, cell in record.items():
            text = "" if cell is None else str(cell).strip()
            if column in _OTHERS:
                continue
            match = _HEADER.fullmatch(column)
            if match is None or match["name"] not in key.measures:
                raise TestsetError(
                    f"unknown column {column!r}",
                    where=where,
                    hint="keep the columns as they were; remarks go under `comment`",
                )
            if not text:
                continue
            whole = re.fullmatch(r"-?[0-9]{1,18}", text)
            if not whole or not int(match["low"]) <= int(text) <= int(match["high"]):
                raise TestsetError(
                    f"{repr(cell)[:60]} under {column!r} is not a whole number from "
                    f"{match['low']} to {match['high']}",
                    where=where,
                    hint="leave the field empty if you cannot decide",
                )
            labels.append(Label(*key.answers[item], match["name"], float(text), person))
    if not labels:
        raise TestsetError("the sheet has no score", where=str(source), hint="fill it in first")
    return labels


def read_review(text: str, root: Path, runs: Sequence[str] = ()) -> PeopleSet:
    """Read filled-in sheets of `ragwright review`.

    Args:
        text: A sheet, several with commas (one per person), or a folder of them; the key
            ``SHEET.key.json`` is beside them.
        root: Folder of the project with the reviewed run.
        runs: Runs whose scores are compared with people's: if the sheets hold answers of several
            systems, they say which of them. By default the reviewed run.

    Raises:
        TestsetError: A sheet or the key is missing, no run has the reviewed answers, a person
            labelled an answer twice, labels are about other answers, or a scale is unknown.
    """
    source = Path(text)
    sheets = [Path(name.strip()) for name in ([text] if source.exists() else text.split(","))]
    if source.is_dir():
        sheets = sorted(source.glob("*.csv"))
    for path in sheets:
        if not path.is_file():
            raise TestsetError("no such file", where=str(path), hint="check the path")
    key = read_key(_key_beside(sheets, text))
    system, evaluation, chosen = _find_reviewed_system(key, root, runs, text)
    rows = {result.row_id: result.row for result in evaluation.results if result.row is not None}
    changed = [
        row
        for item, (reviewed, row) in key.answers.items()
        if reviewed == system and row in rows and key.shown.get(item) != answer_hash(rows[row])
    ]
    if changed:
        raise TestsetError(
            f"people scored other answers in {count_noun(len(changed), 'row')}: "
            f"{list_names(changed, 5)}",
            where=system,
            hint="name the run that was reviewed, or one that judged its stored answers "
            "again (ragwright score RUN); a new answer needs a new review",
        )
    labels: dict[str, dict[str, dict[str, float]]] = {}
    for label in (label for path in sheets for label in read_labels(path, key)):
        if label.system == system and label.row_id in rows:
            by_rater = labels.setdefault(label.row_id, {}).setdefault(label.measure, {})
            if label.rater in by_rater:
                raise TestsetError(
                    f"row {label.row_id!r} has two labels of {label.rater!r} for {label.measure}",
                    hint="give each sheet once, and each person a name in the column `rater`",
                )
            by_rater[label.rater] = label.value
    clusters = clusters_of_rows(rows.values())
    rated = tuple(
        RatedAnswer(replace(rows[row], id=row), of_row, str(clusters.get(row, row)), system)
        for row, of_row in labels.items()
    )
    dimensions = tuple(_dimension_of(name, evaluation) for name in key.measures)
    name = Path(text.partition(",")[0]).stem
    return PeopleSet(name, rated, dimensions, runs=() if chosen else (system,))


def _dimension_of(measure: str, evaluation: Evaluation) -> Dimension:
    scales = {summary.measure: summary.scale for summary in evaluation.summaries}
    scale = scales.get(measure) or parse_measure(measure).known_scale
    if scale is None or scale.high is None:
        raise TestsetError(f"the scale of {measure} is unknown", where=evaluation.name)
    return Dimension(measure, scale.low, scale.high)


def _key_beside(sheets: Sequence[Path], text: str) -> Path:
    """The key that is named as a sheet, else the only key in their folders."""
    for path in sheets:
        if (key := path.with_suffix(".key.json")).is_file():
            return key
    keys = sorted({key for path in sheets for key in path.parent.glob("*.key.json")})
    if len(keys) == 1:
        return keys[0]
    found = f"there are several: {list_names([key.name for key in keys], 5)}; " if keys else ""
    raise TestsetError(
        "the key of the sheet is missing: it maps answers to systems",
        where=text,
        hint=f"{found}put SHEET.key.json, which `review` wrote, beside the sheet",
    )


def _find_reviewed_system(
    key: ReviewKey, root: Path, runs: Iterable[str], text: str
) -> tuple[str, Evaluation, bool]:
    """The reviewed system, the run with its answers, and True if a given run has them.

    A run has the answers if it was reviewed, or if it judged the reviewed ones again.
    """
    systems = list(dict.fromkeys(system for system, _ in key.answers.values()))
    for run in runs:
        (evaluation,) = open_results(root, (run,))
        testset = str(evaluation.manifest.get("testset", "")).removeprefix("run ")
        for name in (evaluation.name, testset, run):
            if name in systems:
                return name, evaluation, True
    if len(systems) > 1:
        raise TestsetError(
            f"the sheet has answers of {' and '.join(systems)}",
            where=text,
            hint="name the run whose scores are compared with people's: --verdicts RUN",
        )
    (evaluation,) = open_results(root, systems)
    return systems[0], evaluation, False
