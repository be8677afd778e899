"""Sheets that people filled in for `ragwright review`, as a set of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...core import TestsetError
from ...experiment import (
    check_labelled,
    clusters_of_rows,
    open_results,
    read_key,
    read_labels,
)
from ...measure import parse_measure
from .._people import Dimension, PeopleSet, Rated
from ._files import SetFiles


def review(files: SetFiles, root: Path) -> PeopleSet:
    """Filled-in sheets of `ragwright review`: one file, or a folder with one sheet per person.

    Args:
        files: The sheets; the key ``SHEET.key.json`` is beside them.
        root: Folder of the project with the reviewed run.

    Raises:
        TestsetError: The key is missing, or the sheets are about answers of several systems.
    """
    sheets = [files.path]
    if files.path.is_dir():
        sheets = [files.path / name for name in files.named("*.csv", "*.tsv", "*.jsonl")]
    folder = files.path if files.path.is_dir() else files.path.parent
    keys = [files.path.with_suffix(".key.json"), *sorted(folder.glob("*.key.json"))]
    key_path = next((path for path in keys if path.is_file()), None)
    if key_path is None:
        raise TestsetError(
            "the key of the sheet is missing: it maps answers to systems",
            where=str(files.path),
            hint="put SHEET.key.json, which `review` wrote, beside the sheet",
        )
    key = read_key(key_path)
    systems = list(dict.fromkeys(system for system, _ in key.answers.values()))
    if len(systems) > 1:
        raise TestsetError(
            f"the sheet has answers of {' and '.join(systems)}",
            where=str(files.path),
            hint="review one run at a time for a passport",
        )
    (evaluation,) = open_results(root, systems)
    rows = {result.row_id: result.row for result in evaluation.results if result.row is not None}
    marks = [mark for path in sheets for mark in read_labels(path, key, path.stem)]
    check_labelled(marks, systems[0], list(rows.values()))
    labels: dict[str, dict[str, dict[str, float]]] = {}
    for mark in marks:
        if mark.row_id in rows:
            by_rater = labels.setdefault(mark.row_id, {}).setdefault(mark.measure, {})
            by_rater[mark.rater] = mark.value
    clusters = clusters_of_rows(rows.values())
    rated = tuple(
        Rated(
            replace(rows[row_id], id=row_id),
            of_row,
            str(clusters.get(row_id, row_id)),
            systems[0],
        )
        for row_id, of_row in labels.items()
    )
    scales = {summary.measure: summary.scale for summary in evaluation.summaries}
    dimensions = []
    for name in key.measures:
        scale = scales.get(name) or parse_measure(name).known_scale
        if scale is None or scale.high is None:
            raise TestsetError(f"the scale of {name} is unknown", where=str(files.path))
        dimensions.append(Dimension(name, scale.low, scale.high))
    return PeopleSet(files.path.stem, rated, tuple(dimensions), runs=(systems[0],))
