"""How many rows a gate needs to see a difference, from the spread of stored scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...measure import MeasureScale, ScoreSpread, counted_as_worst, score_spread
from ._comparing import clusters_of_results
from ._results import Evaluation


def spreads_of(
    evaluation: Evaluation, other: Evaluation | None = None, cluster: str = ""
) -> list[ScoreSpread]:
    """Measure the spread of every measure of a run.

    As in the mean that a gate reads, an abstention on a row with gold has the worst value.

    Args:
        evaluation: The run.
        other: Another run of the same rows, for the correlation of the two; else it is assumed.
        cluster: What dependent rows have in common; see :func:`clusters_of_results`.

    Returns:
        One per measure with two scored rows or more that vary.
    """
    clusters = clusters_of_results(evaluation.results, cluster) or None
    spreads = []
    for summary in evaluation.summaries:
        values = _values_of(evaluation, summary.measure, summary.scale)
        pair = None if other is None else _values_of(other, summary.measure, summary.scale)
        keys: Sequence[str] = [key for key in values if pair is None or key in pair]
        groups = None if clusters is None else [clusters[key] for key in keys]
        spread = score_spread(
            summary.measure,
            np.array([values[key] for key in keys]),
            None if pair is None else np.array([pair[key] for key in keys]),
            groups=groups,
            width=None if summary.scale is None else summary.scale.width,
        )
        if spread is not None:
            spreads.append(spread)
    return spreads


def _values_of(
    evaluation: Evaluation, measure: str, scale: MeasureScale | None
) -> dict[str, float]:
    """Row id -> score of a measure, of the rows that have one."""
    return {
        result.row_id: value
        for result in evaluation.results
        for score in result.scores
        if score.measure == measure and (value := counted_as_worst(score, scale).value) is not None
    }
