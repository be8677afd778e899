"""Blind review of answers: a sheet without system names, a separate key, a strict reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import (
    Row,
    TestsetError,
    count_noun,
    csv_lines,
    list_names,
    replace_text,
    text_hash,
    value_hash,
)
from ...measure import (
    Measure,
    Rubric,
    load_rubrics,
    parse_measures,
    rubrics_of,
    set_rubric_scales,
)
from ...project import Project
from ...testsets import read_rows, records_of
from ._result_files import open_results, read_stored_or_given
from ._results import Evaluation
from ._running import find_run

_SHOWN = ("user_input", "reference", "retrieved_contexts", "response")
_LEVELS = "levels"
_UNUSABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""Errors of reading an edited JSON file."""

_UNLIKE = frozenset({"JudgedPrecision"})
"""Measures whose rubric is about single passages, not about the reviewed answer."""

_HEADER = re.compile(r"(?P<name>.+?)(?: \((?P<low>-?\d+)-(?P<high>-?\d+)\))?")
_TABLES = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """The sheet for reviewers: items without system names, and the scales.

    Attributes:
        items: One object per answer, in shuffled order: ``item``, the shown texts, ``levels`` (the
            meaning of each score of each measure, one line each), one empty field per measure (its
            scale in the name), ``comment``.
        columns: Names of the fields to fill in, ``Faithfulness (1-5)``, in order.
    """

    items: tuple[Mapping[str, Any], ...]
    columns: tuple[str, ...]


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
    """One person's label of one answer by one measure; ``shown`` is the hash of that answer."""

    system: str
    row_id: str
    measure: str
    value: float
    rater: str = ""
    shown: str = ""


def blind_sheet(
    systems: Mapping[str, Iterable[Row]],
    measures: Sequence[Measure],
    *,
    seed: int = 0,
    rubrics: Mapping[str, Rubric] | None = None,
) -> tuple[ReviewSheet, ReviewKey]:
    """Make a sheet of all answers of all systems in one shuffled order, and its key.

    The order is that of hashes of seed, row and system: answers to one question are apart, and
    items do not reveal the system.

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
    columns = tuple(_column_of(measure) for measure in measures)
    levels = "\n\n".join(_level_descriptions(measure, rubrics or {}) for measure in measures)
    by_place: dict[str, tuple[str, Row]] = {}
    for system, rows in systems.items():
        for row in rows:
            place = text_hash(f"{seed}\x00{row.id}\x00{system}")
            if place in by_place:
                raise TestsetError(f"row {row.id!r} of {system!r} occurs twice")
            if row.response_text:
                by_place[place] = (system, row)
    if not by_place or not columns:
        raise TestsetError(
            "there is nothing to review", hint="give rows with a response, and a measure"
        )
    width = len(str(len(by_place)))
    items, answers, hashes = [], {}, {}
    for number, place in enumerate(sorted(by_place), 1):
        system, row = by_place[place]
        item = f"{number:0{width}}"
        answers[item] = (system, row.id)
        hashes[item] = answer_hash(row)
        texts = {name: getattr(row, name) for name in _SHOWN if getattr(row, name)}
        empty = {**dict.fromkeys(columns, ""), "comment": ""}
        items.append({"item": item, **texts, _LEVELS: levels, **empty})
    key = ReviewKey(answers, tuple(map(str, measures)), seed, hashes)
    return ReviewSheet(tuple(items), columns), key


def write_sheet(sheet: ReviewSheet, path: str | Path) -> None:
    """Write a sheet as CSV, TSV or JSONL, by the path's suffix.

    In tables, passages are numbered below each other, and text that a spreadsheet would read as a
    formula gets an apostrophe.

    Raises:
        TestsetError: The file exists already; filled-in sheets are never overwritten.
    """
    target = Path(path)
    if target.suffix.lower() not in _TABLES:
        lines = [json.dumps(item, ensure_ascii=False) for item in sheet.items]
        _write_new(target, "\n".join(lines) + "\n")
        return
    names = ["item", *_SHOWN, _LEVELS, *sheet.columns, "comment"]
    names = [name for name in names if any(name in item for item in sheet.items)]
    rows = ([_number_passages(item.get(name, "")) for name in names] for item in sheet.items)
    table = csv_lines([names, *rows], delimiter=_TABLES[target.suffix.lower()], end="\r\n")
    _write_new(target, "".join(table), "utf-8-sig")


def write_key(key: ReviewKey, path: str | Path) -> None:
    """Write a key as JSON; do not give it to the reviewers.

    Raises:
        TestsetError: The file exists already; keys are never overwritten.
    """
    body = {
        "seed": key.seed,
        "measures": list(key.measures),
        "answers": dict(key.answers),
        "shown": dict(key.shown),
    }
    _write_new(Path(path), json.dumps(body, ensure_ascii=False, indent=1) + "\n")


def read_key(path: str | Path) -> ReviewKey:
    """Read the key that :func:`write_key` wrote.

    Raises:
        TestsetError: It is missing or not a key.
    """
    try:
        body = json.loads(Path(path).read_text("utf-8"))
        answers = {str(k): (str(v[0]), str(v[1])) for k, v in body["answers"].items()}
        hashes = {str(k): str(v) for k, v in body.get("shown", {}).items()}
        return ReviewKey(answers, tuple(map(str, body["measures"])), int(body["seed"]), hashes)
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except _UNUSABLE as error:
        raise TestsetError(
            "this is not the key of a review", where=str(path), hint="give the key of the sheet"
        ) from error


def read_labels(path: str | Path, key: ReviewKey, rater: str = "") -> tuple[Label, ...]:
    """Read the labels in a filled-in sheet; empty fields are skipped.

    Args:
        path: The sheet, filled in.
        key: Its key.
        rater: Name of the person; empty for the file's name. A column ``rater`` overrides both.

    Raises:
        TestsetError: An item is unknown or occurs twice, a column is unknown, no column of a
            measure is left, or a value is not a whole number on the scale; file and line are named.
    """
    source = Path(path)
    labels: list[Label] = []
    places: dict[tuple[str, str], str] = {}
    for where, record in records_of(source):
        item = _item_of(record, key, where)
        person = str(record.get("rater") or rater or source.stem)
        if (item, person) in places:
            raise TestsetError(
                f"item {item} occurs twice", where=where, hint=f"first at {places[item, person]}"
            )
        places[item, person] = where
        system, row_id = key.answers[item]
        for measure, value in _scores_in_line(record, key, where).items():
            labels.append(Label(system, row_id, measure, value, person, key.shown.get(item, "")))
    if not labels:
        raise TestsetError("the sheet has no score", where=str(source), hint="fill it in first")
    return tuple(labels)


def answer_hash(row: Row) -> str:
    """Hash the reviewed texts: the question, the answer and its passages."""
    return value_hash([row.user_input, row.response, list(row.retrieved_contexts)])


def check_labelled(labels: Iterable[Label], system: str, rows: Iterable[Row]) -> None:
    """Refuse labels of other answers than those of the rows.

    Labels of older keys without hashes, and of missing rows, are accepted.

    Raises:
        TestsetError: An answer, its question or its passages differ; lists the rows.
    """
    hashes = {label.row_id: label.shown for label in labels if label.system == system}
    changed = [row.id for row in rows if hashes.get(row.id) and hashes[row.id] != answer_hash(row)]
    if changed:
        rows_text = ", ".join(changed[:5]) + (" and others" if len(changed) > 5 else "")
        raise TestsetError(
            f"people scored other answers in {count_noun(len(changed), 'row')}: {rows_text}",
            where=system,
            hint="name the run that was reviewed, or one that judged its stored answers "
            "again (ragwright score RUN); a new answer needs a new review",
        )


def _level_descriptions(measure: Measure, own: Mapping[str, Rubric]) -> str:
    """Describe a measure's scores: the levels of its rubric, or its summary."""
    rubrics = () if measure.name in _UNLIKE else rubrics_of(measure, own)
    head = _column_of(measure)
    if len(rubrics) != 1:
        return f"{head}: {measure.definition.summary}"
    rubric = rubrics[0]
    lines = [f"{level}: {rubric.levels[level].strip()}" for level in sorted(rubric.levels, key=int)]
    return "\n".join([f"{head}: {' '.join(rubric.task.split())}", *lines])


def _write_new(path: Path, text: str, encoding: str = "utf-8") -> None:
    try:
        replace_text(path, text, fresh=True, encoding=encoding)
    except FileExistsError as error:
        raise TestsetError(
            "the file exists already; nothing was changed",
            where=str(path),
            hint="choose another name, or move the file away",
        ) from error


def _column_of(measure: Measure) -> str:
    low, high = measure.definition.low, measure.definition.high
    if high is None or low != round(low) or high != round(high):
        raise TestsetError(
            f"people cannot score {measure}: its scale has no whole ends",
            hint="review by measures with a scale, such as 1-5 or 0-1",
        )
    return f"{measure} ({low:g}-{high:g})"


def _item_of(record: Mapping[str, Any], key: ReviewKey, where: str) -> str:
    item = record.get("item")
    if isinstance(item, str) and item not in key.answers and item.isdigit():
        # Spreadsheets drop leading zeros.
        item = item.zfill(max(map(len, key.answers), default=0))
    if not isinstance(item, str) or item not in key.answers:
        raise TestsetError(
            f"item {item!r} is not in the key", where=where, hint="use the key of this sheet"
        )
    return item


def _scores_in_line(record: Mapping[str, Any], key: ReviewKey, where: str) -> dict[str, float]:
    """Read the scores in one line, by measure."""
    scores = {}
    for column, cell in record.items():
        if column in {"item", "comment", "rater", _LEVELS, *_SHOWN}:
            continue
        match = _HEADER.fullmatch(column)
        if match is None or match["name"] not in key.measures or match["low"] is None:
            raise TestsetError(
                f"unknown column {column!r}",
                where=where,
                hint="keep the columns as they were; remarks go under `comment`",
            )
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            continue
        value, low, high = _whole_number(cell), int(match["low"]), int(match["high"])
        if value is None or not low <= value <= high:
            raise TestsetError(
                f"{repr(cell)[:60]} under {column!r} is not a whole number from {low} to {high}",
                where=where,
                hint="leave the field empty if you cannot decide",
            )
        scores[match["name"]] = float(value)
    return scores


def _whole_number(cell: Any) -> int | None:
    """Parse a whole number as written by people and spreadsheets; None for anything else."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int):
        return cell
    text = str(cell).strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _number_passages(value: Any) -> str:
    """Return passages as numbered paragraphs; anything else as text."""
    if isinstance(value, tuple | list):
        return "\n\n".join(f"[{n}] {text}" for n, text in enumerate(value, 1))
    return str(value)


def rows_to_review(
    folder: str | Path, names: Sequence[str], measures: str
) -> tuple[dict[str, tuple[Row, ...]], tuple[Measure, ...], Mapping[str, Rubric]]:
    """Return answers by system, the measures for people, and their rubrics.

    A system is a file by its name, or a run by its id, so that `latest` keeps its meaning.

    Raises:
        MeasureError: A measure is unknown.
        TestsetError: A file or run holds no answers.
        StoreError: A name is neither a file nor a run.
    """
    parsed = parse_measures(measures)
    rubrics = load_rubrics(Path(folder))
    if all(Path(name).is_file() for name in names):
        return {name: read_rows(name) for name in names}, parsed, rubrics
    with Project.open(folder) as project:
        systems = {}
        for name in names:
            system = name if Path(name).is_file() else find_run(project.runs, name)
            systems[system] = tuple(read_stored_or_given(project.runs, system).rows)
    return systems, parsed, rubrics


def write_blind_sheet(
    folder: str | Path, names: Sequence[str], measures: str, path: Path, *, seed: int = 0
) -> tuple[ReviewSheet, Path]:
    """Write a sheet for people to score answers without knowing the system, and its key beside it.

    Args:
        folder: The project.
        names: Runs, or files of rows.
        measures: Measures for people to score, separated by commas.
        path: The sheet: ``.csv``, ``.tsv`` or ``.jsonl``; the key is ``NAME.key.json``.
        seed: Seed of the order.

    Returns:
        The sheet, and the file of its key.

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
    systems, parsed, rubrics = rows_to_review(folder, names, measures)
    sheet, key = blind_sheet(systems, parsed, seed=seed, rubrics=rubrics)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_key(key, key_file)
    write_sheet(sheet, path)
    return sheet, key_file


@dataclass(frozen=True, slots=True)
class ReviewedAnswers:
    """People's labels of the answers of one system.

    Attributes:
        system: The system, as the key names it.
        evaluation: The run with its answers.
        measures: Measures by which people scored.
        labels: Row id -> measure -> person -> label.
        chosen: True if the caller named the run.
    """

    system: str
    evaluation: Evaluation
    measures: tuple[str, ...]
    labels: Mapping[str, Mapping[str, Mapping[str, float]]]
    chosen: bool


def read_sheets(text: str, root: Path, runs: Sequence[str] = ()) -> ReviewedAnswers:
    """Read filled-in sheets.

    Args:
        text: A sheet, several with commas (one per person), or a folder of them; the key
            ``SHEET.key.json`` is beside them.
        root: Folder of the project with the reviewed run.
        runs: Runs whose scores are compared with people's: if the sheets hold answers of several
            systems, they say which of them. By default the reviewed run.

    Raises:
        TestsetError: A sheet or the key is missing, no run has the reviewed answers, a person
            labelled an answer twice, or labels are about other answers.
    """
    sheets = _sheets_in(text)
    key = read_key(_key_beside(sheets))
    system, evaluation, chosen = _find_reviewed_system(key, root, runs, text)
    rows = [result.row for result in evaluation.results if result.row is not None]
    marks = [mark for path in sheets for mark in read_labels(path, key, path.stem)]
    check_labelled(marks, system, rows)
    return ReviewedAnswers(system, evaluation, key.measures, _labels_by_row(marks, system), chosen)


def _sheets_in(text: str) -> list[Path]:
    """The sheets of a folder, or those named."""
    source = Path(text)
    sheets = [Path(name.strip()) for name in ([text] if source.exists() else text.split(","))]
    if source.is_dir():
        sheets = sorted(path for path in source.iterdir() if path.suffix in (*_TABLES, ".jsonl"))
    missing = [str(path) for path in sheets if not path.is_file()]
    if missing or not sheets:
        raise TestsetError(
            "no such file" if missing else "the folder holds no sheet",
            where=missing[0] if missing else text,
            hint="check the path",
        )
    return sheets


def _key_beside(sheets: Sequence[Path]) -> Path:
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
        where=str(sheets[0]),
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


def _labels_by_row(marks: Iterable[Label], system: str) -> dict[str, dict[str, dict[str, float]]]:
    """Row id -> measure -> person -> label of one system's answers."""
    labels: dict[str, dict[str, dict[str, float]]] = {}
    for mark in marks:
        if mark.system != system:
            continue
        by_rater = labels.setdefault(mark.row_id, {}).setdefault(mark.measure, {})
        if mark.rater in by_rater:
            raise TestsetError(
                f"row {mark.row_id!r} has two labels of {mark.rater!r} for {mark.measure}",
                hint="give each sheet once, and each person a name in the column `rater`",
            )
        by_rater[mark.rater] = mark.value
    return labels
