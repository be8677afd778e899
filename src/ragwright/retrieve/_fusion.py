"""Fusion of ranked lists: by ranks, or by scores brought to one scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..core import RetrieveError


def rrf(
    lists: Sequence[Sequence[str]],
    k: int = 60,
    weights: Sequence[float] | None = None,
    *,
    limit: int | None = None,
) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: the sum over lists of ``weight / (k + rank)``, rank from 1.

    Cormack, Clarke and Buettcher, SIGIR 2009. Scores are rounded to 6 digits and ties broken
    by id, so that ranks past about 900 in a list of weight 1 get equal scores.

    Args:
        lists: Ids, best first; an id named twice in one list counts at its first rank.
        k: Constant that damps the first ranks, 0 or more.
        weights: One per list, 0 or more; 1 each if None.
        limit: Most ids to return, None for all.

    Returns:
        The ids of the lists with a positive weight, and their scores, best first.

    Raises:
        RetrieveError: The weights do not fit the lists, or one is negative; k is negative.
    """
    if weights is None:
        weights = (1.0,) * len(lists)
    if len(weights) != len(lists) or any(not 0 <= w < math.inf for w in weights) or k < 0:
        raise RetrieveError(
            f"cannot fuse {len(lists)} lists with weights {list(weights)} and k {k}",
            hint="give one weight of 0 or more to each list, and a k of 0 or more",
        )
    millionths: dict[str, float] = {}
    for ids, weight in zip(lists, weights, strict=True):
        if not weight:
            continue
        unique = ids if len(set(ids)) == len(ids) else tuple(dict.fromkeys(ids))
        for key, share in zip(unique, _rank_shares(len(unique), k, weight), strict=True):
            millionths[key] = millionths.get(key, 0.0) + share
    return _best_ids(millionths, limit)


def convex(
    lists: Sequence[Sequence[tuple[str, float]]],
    shares: Sequence[float],
    floors: Sequence[float],
    pool: int,
    *,
    limit: int | None = None,
) -> list[tuple[str, float]]:
    """Convex combination of scores: the sum over lists of ``share * scaled``.

    ``scaled = (score - floor) / (best - floor)``, the theoretical min-max normalisation of
    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS
    2023: ``floor`` is the least score there could be (0 for BM25, -1 for a cosine), ``best``
    the greatest in the list. An id that is not in a list of ``pool`` ids or more gets the list's
    least score, the most it can have; an id that is not in a shorter list, which is complete, gets
    the floor.

    Args:
        lists: (id, score) each, every id once, in any order.
        shares: One per list, 0 or more; they are divided by their sum.
        floors: Per list the least possible score; lower scores count as this.
        pool: Length from which a list may have been cut.
        limit: Most ids to return, None for all.

    Returns:
        Ids and fused scores, 0 to 1, rounded to 6 digits, best first, ties by id.

    Raises:
        RetrieveError: Shares or floors do not fit the lists, one is negative, or all are 0.
    """
    total = sum(shares)
    sound = len(shares) == len(floors) == len(lists) and 0 < total < math.inf
    if not sound or min(shares) < 0:
        raise RetrieveError(
            f"cannot fuse {len(lists)} lists with shares {list(shares)} and floors {list(floors)}",
            hint="give one share of 0 or more to each list, one of them above 0",
        )
    base = 0.0
    millionths: dict[str, float] = {}
    for ranking, share, floor in zip(lists, shares, floors, strict=True):
        if not ranking or not share:
            continue
        low, best = min(score for _, score in ranking), max(score for _, score in ranking)
        scale = 1e6 * share / total / (best - floor) if best > floor else 0.0
        if low < floor:
            ranking = [(key, max(score, floor)) for key, score in ranking]
        least = max(low, floor) if len(ranking) >= pool else floor
        base += (least - floor) * scale
        shift = least * scale
        for key, score in ranking:
            gain = score * scale - shift
            millionths[key] = millionths[key] + gain if key in millionths else gain
    return _best_ids(millionths, limit, base)


def _best_ids(
    millionths: Mapping[str, float], limit: int | None, base: float = 0.0
) -> list[tuple[str, float]]:
    """Scores in millionths plus ``base`` as (id, score): rounded, best first, ties by id."""
    least = -math.inf
    if limit is not None and 0 < limit < len(millionths):
        # Only ids that may reach the limit after rounding are rounded and sorted: fusion takes most
        # of a hybrid query's Python time.
        least = sorted(millionths.values(), reverse=True)[limit - 1] - 1
    base += 0.5
    best = sorted((-int(score + base), key) for key, score in millionths.items() if score >= least)
    return [(key, -millionth / 1e6) for millionth, key in best[:limit]]


@lru_cache(maxsize=256)
def _rank_shares(length: int, k: int, weight: float) -> tuple[float, ...]:
    """The score that each rank of a list adds, in millionths."""
    return tuple(weight * 1e6 / (k + rank) for rank in range(1, length + 1))
