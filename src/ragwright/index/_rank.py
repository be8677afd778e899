"""The ranking rule of :func:`ragwright.core.ranked`, over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._segment import Segment

Rows = NDArray[np.intp]
Scores = NDArray[np.float64]

ROUNDING = 2e-6
"""Scores this close to the k-th best may round to it."""

_LARGE = 32 * 2**20
_LONG = 128


def products(matrix: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inner product of every row with one query, in float32.

    For a matrix larger than the caches, BLAS' matrix-vector product reads several rows in parallel
    and gets less than half of the memory's speed; row by row takes 40 % of the time (3.7 ms against
    9.8 for 80,000 x 384). For short rows and small matrices BLAS is faster.
    """
    if matrix.nbytes > _LARGE and matrix.shape[1] >= _LONG:
        return np.asarray(np.vecdot(matrix, query), np.float32)
    return np.asarray(matrix @ query, np.float32)


def highest(scores: NDArray[Any], k: int, slack: float, above: float = -np.inf) -> Rows:
    """Rows with a score greater than ``above`` that may be among the k best.

    Args:
        scores: One score per row.
        k: Number wanted, 1 or more; fewer are returned only if fewer are above.
        slack: Scores this far below the k-th best may belong to them.
        above: Scores must be greater than this.
    """
    least = reached(scores, k) - slack if k < len(scores) else -np.inf
    rows = np.flatnonzero(scores >= least if least > above else scores > above)
    if k < len(rows):
        few = scores[rows]
        rows = rows[few >= np.partition(few, len(few) - k)[len(few) - k] - slack]
    return rows


def reached(scores: NDArray[Any], k: int) -> float:
    """A score that at least k scores reach, near the k-th best.

    At least k groups, and so k scores, reach the k-th best of the groups' maxima; finding it is
    several times faster than selecting among all scores.
    """
    groups = min(64, len(scores) // (4 * k))
    if groups > 1:
        scores = scores[: len(scores) // groups * groups].reshape(groups, -1).max(axis=0)
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def best(
    candidates_by_segment: Sequence[tuple[Segment, Rows, Scores]], k: int, *, above: float = -np.inf
) -> tuple[tuple[str, float], ...]:
    """The k best (chunk id, score) of all segments: rounded to 6 digits, ties by id.

    Args:
        candidates_by_segment: Per segment its candidate rows and their scores.
        k: Most to return.
        above: Rounded scores must be greater than this.
    """
    lists = [_best_of_segment(*candidates, k, above) for candidates in candidates_by_segment]
    if len(lists) == 1:
        return tuple(lists[0])
    merged = sorted(
        (pair for candidates in lists for pair in candidates), key=lambda pair: (-pair[1], pair[0])
    )
    return tuple(merged[:k])


def _best_of_segment(
    segment: Segment, rows: Rows, scores: Scores, k: int, above: float
) -> list[tuple[str, float]]:
    """The k best of one segment; ids are compared by their rank and decoded last."""
    # Not np.round, which takes longer than everything else for a hundred scores.
    rounded = np.rint(scores * 1e6) / 1e6
    order = np.lexsort((segment.rank[rows], -rounded))[:k]
    if above > -np.inf:
        order = order[rounded[order] > above]
    # Adding 0.0 makes the -0.0 of a tiny negative similarity a plain 0.0.
    values = (rounded[order] + 0.0).tolist()
    return list(zip(segment.ids_of(rows[order]), values, strict=True))
