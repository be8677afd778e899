"""Filled-in sheets of a blind review: their key, the reviewed run, and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core import TestsetError, list_names
from ._results import Evaluation
from ._review import Label, ReviewKey, check_labelled, read_key, read_labels
from ._stored import open_results

_TABLES = (".csv", ".tsv", ".jsonl")


@dataclass(frozen=True, slots=True)
class Reviewed:
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


def read_sheets(text: str, root: Path, runs: Sequence[str] = ()) -> Reviewed:
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
    system, evaluation, chosen = _reviewed_system(key, root, runs, text)
    rows = [result.row for result in evaluation.results if result.row is not None]
    marks = [mark for path in sheets for mark in read_labels(path, key, path.stem)]
    check_labelled(marks, system, rows)
    return Reviewed(system, evaluation, key.measures, _labels_by_row(marks, system), chosen)


def _sheets_in(text: str) -> list[Path]:
    """The sheets of a folder, or those named."""
    source = Path(text)
    sheets = [Path(name.strip()) for name in ([text] if source.exists() else text.split(","))]
    if source.is_dir():
        sheets = sorted(path for path in source.iterdir() if path.suffix in _TABLES)
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


def _reviewed_system(
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
