"""Fusion of ranked lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ..core import RetrieveError, ranked


def rrf(
    lists: Sequence[Sequence[str]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: the sum over lists of ``weight / (k + rank)``, rank from 1.

    Cormack, Clarke and Buettcher, SIGIR 2009. Scores are rounded to 6 digits and ties broken
    by id, so that ranks past about 900 in a list of weight 1 are no longer told apart.

    Args:
        lists: Ids, best first; an id named twice in one list counts at its first rank.
        k: Constant that damps the first ranks, 0 or more.
        weights: One per list, 0 or more; 1 each where None.

    Returns:
        Every id of a list with a positive weight and its score, best first.

    Raises:
        RetrieveError: The weights do not fit the lists, or one is negative; k is negative.
    """
    if weights is None:
        weights = (1.0,) * len(lists)
    if len(weights) != len(lists) or any(not 0 <= w < float("inf") for w in weights) or k < 0:
        raise RetrieveError(
            f"cannot fuse {len(lists)} lists with weights {list(weights)} and k {k}",
            hint="give one weight of 0 or more to each list, and a k of 0 or more",
        )
    scores: dict[str, float] = {}
    for ids, weight in zip(lists, weights, strict=True):
        if not weight:
            continue
        seen = ids if len(set(ids)) == len(ids) else dict.fromkeys(ids)
        for key, rank in zip(seen, count(k + 1), strict=False):
            scores[key] = scores.get(key, 0.0) + weight / rank
    return ranked(scores.items(), len(scores))
