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


def highest(scores: Scores, k: int, rows: Rows | None = None) -> tuple[Rows, Scores]:
    """Rows that may be among the k best, and their scores, unrounded.

    ``rows`` names the row of each score; without it, they are counted from 0.
    """
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = np.flatnonzero(scores >= kth - _SLACK)
        return (kept if rows is None else rows[kept]), scores[kept]
    return (np.arange(len(scores)) if rows is None else rows), scores


def best(
    found: Sequence[tuple[Segment, Rows, Scores]], k: int, *, above: float = -np.inf
) -> tuple[tuple[str, float], ...]:
    """The k best (chunk id, score) of all segments: rounded to 6 digits, ties by id.

    Args:
        found: Per segment its candidate rows and their scores.
        k: Most to return.
        above: Rounded scores must be greater than this.
    """
    rounded = [(segment, rows, np.round(scores, 6)) for segment, rows, scores in found]
    everything = np.concatenate([scores for _, _, scores in rounded]) if rounded else np.empty(0)
    everything = everything[everything > above]
    if not len(everything) or k < 1:
        return ()
    size = len(everything)
    kth = float(np.partition(everything, size - k)[size - k]) if k < size else float("-inf")
    pairs: list[tuple[float, str]] = []
    for segment, rows, scores in rounded:
        kept = np.flatnonzero((scores >= kth) & (scores > above))
        if len(kept) > 2 * k + 64:
            kept = _fewer_ties(segment, rows, scores, kept, k)
        pairs += zip((-scores[kept]).tolist(), map(segment.id_of, rows[kept].tolist()), strict=True)
    pairs.sort()
    return tuple((key, -score) for score, key in pairs[:k])


def _fewer_ties(segment: Segment, rows: Rows, scores: Scores, kept: Rows, k: int) -> Rows:
    """Of very many equal scores only the k first by id, found without decoding the ids."""
    order = np.lexsort((segment.rank[rows[kept]], -scores[kept]))
    return kept[order[:k]]
