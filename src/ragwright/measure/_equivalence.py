"""How much a system may have lost at most: what "as good as before" has to show."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from ..core import Score
from ._definition import MeasureScale
from .statistics import TAIL, difference_interval, numbered, unseen_interval


def most_lost(
    whole: Mapping[str, Score],
    less: Mapping[str, Score],
    scale: MeasureScale,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> float | None:
    """The largest mean loss of ``less`` against ``whole`` that their rows leave possible.

    The upper end of the 95 % interval of the paired difference, in the direction that is bad; it
    allows for large losses that are too rare to be among these rows (see :func:`least_rows`). A
    margin above it is a proof of non-inferiority at 2.5 % (Wellek 2010). A row that ``less`` has no
    score for although ``whole`` has one counts as lost from end to end, and so does one on which
    one of the two abstained and the other did not. Abstaining on a row that is marked unanswerable
    loses nothing.

    Args:
        whole: Row id -> score of the system that stands.
        less: Likewise of the one that would take its place.
        scale: Range and direction of the measure.
        seed: Seed of the bootstrap.
        clusters: Row id -> cluster, where rows are not independent.

    Returns:
        The loss in units of the measure, from 0; None below two rows, or where the scale has no
        upper end.
    """
    reach = scale.width
    if reach is None:
        return None
    losses, keys = [], []
    for row, score in whole.items():
        other = less.get(row)
        loss = _loss(score, other, reach, scale.higher_is_better) if other is not None else None
        if loss is not None:
            losses.append(loss)
            keys.append(row if clusters is None else clusters[row])
    values = np.array(losses, dtype=np.float64)
    groups = None if clusters is None else numbered(keys)
    ends = difference_interval(values, seed, reach=reach, clusters=groups)
    if ends is None:
        return None
    unseen = unseen_interval(float(values.mean()), len(set(keys)), (-reach, reach))
    return max(0.0, ends[1], unseen[1])


def least_rows(margin: float) -> int:
    """Rows below which nothing can be shown to lose less than a share of the scale.

    Even where no row differs, a loss over the whole scale on ``1 - 0.025 ** (1 / n)`` of all rows
    can have been missed by n of them (Clopper and Pearson 1934).

    Args:
        margin: Share of the scale, above 0 and below 1.
    """
    return math.floor(math.log(TAIL) / math.log1p(-margin)) + 1


def _loss(score: Score, other: Score, reach: float, upward: bool) -> float | None:
    """What a row loses, None where it says nothing."""
    if score.value is not None and other.value is not None:
        return round(score.value - other.value if upward else other.value - score.value, 6)
    if other.unanswerable:
        return None
    if other.state != score.state and (score.value is not None or score.state == "abstained"):
        return reach
    return None
