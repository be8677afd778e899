"""The ranking rule of :func:`ragwright.core.ranked`, over arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._segment import Segment

Rows = NDArray[np.intp]
Scores = NDArray[np.float64]

_SLACK = 2e-6
"""Scores this near to the k-th best may round to it."""


def highest(scores: Scores, k: int) -> tuple[Rows, Scores]:
    """Rows with a score above 0 that may be among the k best, and their scores, unrounded.

    Most rows hold but a common word of the query; a look at those near the top is three times
    as fast as selecting among all.
    """
    top = float(scores.max(initial=0.0))
    rows = np.flatnonzero(scores > 0.5 * top)
    for share in (0.25, 0.0):
        if len(rows) < k:
            rows = np.flatnonzero(scores > share * top)
    found = scores[rows]
    if k < len(rows):
        kth = np.partition(found, len(rows) - k)[len(rows) - k]
        kept = np.flatnonzero(found >= kth - _SLACK)
        rows, found = rows[kept], found[kept]
    return rows, found


def best(
    found: Sequence[tuple[Segment, Rows, Scores]], k: int, *, above: float = -np.inf
) -> tuple[tuple[str, float], ...]:
    """The k best (chunk id, score) of all segments: rounded to 6 digits, ties by id.

    Args:
        found: Per segment its candidate rows and their scores.
        k: Most to return.
        above: Rounded scores must be greater than this.
    """
    lists = [_ordered(*one, k, above) for one in found]
    if len(lists) == 1:
        return tuple(lists[0])
    merged = sorted((pair for one in lists for pair in one), key=lambda pair: (-pair[1], pair[0]))
    return tuple(merged[:k])


def _ordered(
    segment: Segment, rows: Rows, scores: Scores, k: int, above: float
) -> list[tuple[str, float]]:
    """The k best of one segment; ids are compared by their rank and decoded last."""
    # Not np.round, which takes longer than all the rest for a hundred scores.
    rounded = np.rint(scores * 1e6) / 1e6
    order = np.lexsort((segment.rank[rows], -rounded))[:k]
    if above > -np.inf:
        order = order[rounded[order] > above]
    # Adding 0.0 makes the -0.0 of a tiny negative similarity a plain 0.0.
    values = (rounded[order] + 0.0).tolist()
    return list(zip(segment.ids_of(rows[order]), values, strict=True))
