"""Sheets that people filled in for `ragwright review`, as a set of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...core import TestsetError
from ...experiment import clusters_of_rows, read_sheets
from ...measure import parse_measure
from .._people import Dimension, PeopleSet, Rated


def review(text: str, root: Path, runs: Sequence[str] = ()) -> PeopleSet:
    """Filled-in sheets of `ragwright review`.

    Args:
        text: See :func:`ragwright.experiment.read_sheets`; likewise ``runs``.
        root: Folder of the project with the reviewed run.
        runs: See ``text``.

    Raises:
        TestsetError: As there, or the scale of a measure is unknown.
    """
    reviewed = read_sheets(text, root, runs)
    results, system = reviewed.evaluation.results, reviewed.system
    rows = {result.row_id: result.row for result in results if result.row is not None}
    clusters = clusters_of_rows(rows.values())
    rated = tuple(
        Rated(replace(rows[row_id], id=row_id), of_row, str(clusters.get(row_id, row_id)), system)
        for row_id, of_row in reviewed.labels.items()
        if row_id in rows
    )
    scales = {summary.measure: summary.scale for summary in reviewed.evaluation.summaries}
    dimensions = []
    for name in reviewed.measures:
        scale = scales.get(name) or parse_measure(name).known_scale
        if scale is None or scale.high is None:
            raise TestsetError(f"the scale of {name} is unknown", where=text)
        dimensions.append(Dimension(name, scale.low, scale.high))
    name = Path(text.partition(",")[0]).stem
    return PeopleSet(name, rated, tuple(dimensions), runs=() if reviewed.chosen else (system,))
