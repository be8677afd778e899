"""Upper bound on the loss of a system, to prove that it is as good as before."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from ..core import Score
from ._definition import MeasureScale
from .statistics import TAIL, difference_interval, number_clusters, unseen_interval


def most_lost(
    whole: Mapping[str, Score],
    less: Mapping[str, Score],
    scale: MeasureScale,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> float | None:
    """The largest mean loss of ``less`` against ``whole`` that is compatible with their rows.

    The upper end of the 95 % interval of the paired difference, in the worse direction; it allows
    for large losses too rare to be in the sample (see :func:`least_rows`). A margin above it is a
    proof of non-inferiority at 2.5 % (Wellek 2010). A row without a score in ``less`` but with one
    in ``whole`` counts as a loss over the whole scale, and so does a row on which only one of the
    two abstained. Abstaining on a row marked unanswerable is not a loss.

    Args:
        whole: Row id -> score of the present system.
        less: Likewise of the one that would replace it.
        scale: Range and direction of the measure.
        seed: Seed of the bootstrap.
        clusters: Row id -> cluster, if rows are not independent.

    Returns:
        The loss in units of the measure, from 0; None below two rows, or if the scale has no upper
        end.
    """
    reach = scale.width
    if reach is None:
        return None
    losses, keys = [], []
    for row, score in whole.items():
        lesser = less.get(row)
        loss = (
            _row_loss(score, lesser, reach, scale.higher_is_better) if lesser is not None else None
        )
        if loss is not None:
            losses.append(loss)
            keys.append(row if clusters is None else clusters[row])
    values = np.array(losses, dtype=np.float64)
    groups = None if clusters is None else number_clusters(keys)
    ends = difference_interval(values, seed, reach=reach, clusters=groups)
    if ends is None:
        return None
    unseen = unseen_interval(float(values.mean()), len(set(keys)), (-reach, reach))
    return max(0.0, ends[1], unseen[1])


def least_rows(margin: float) -> int:
    """Least number of rows that can show a loss below a share of the scale.

    Even if no row differs, n rows can miss a loss over the whole scale on ``1 - 0.025 ** (1 / n)``
    of all rows (Clopper and Pearson 1934).

    Args:
        margin: Share of the scale, above 0 and below 1.
    """
    return math.floor(math.log(TAIL) / math.log1p(-margin)) + 1


def _row_loss(score: Score, lesser: Score, reach: float, upward: bool) -> float | None:
    """Loss on a row, None if the row gives no information."""
    if score.value is not None and lesser.value is not None:
        return round(score.value - lesser.value if upward else lesser.value - score.value, 6)
    if lesser.unanswerable:
        return None
    if lesser.state != score.state and (score.value is not None or score.state == "abstained"):
        return reach
    return None
