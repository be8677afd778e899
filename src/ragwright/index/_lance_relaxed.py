"""Relaxed filters over a Lance table: classes of equal weight, best first.

A class is all chunks whose soft conditions weigh the same. Scalar indexes count a class without
reading rows, so empty combinations cost one count for each condition, not a search. Where few
chunks are left they are read at once with the conditions that each meets.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core import Relaxation
from ..flow import SearchReply
from . import _lance_tables as lance
from ._lance_search import DenseScoring, Scoring
from ._lance_where import Conditions, Where
from ._rank import Ladder, ScoredChunks, join_chunks
from ._relaxed import relaxed_reply


@dataclass(frozen=True, slots=True)
class _WeightClass:
    """Chunks of one weight: condition, number of chunks, and that of each combination."""

    where: Where
    steps: Mapping[int, int]


def climb(
    conditions: Conditions,
    where: Where,
    soft: Sequence[str],
    ladder: Ladder,
    scoring: Scoring,
    k: int,
    relax: Relaxation,
) -> SearchReply:
    """The k best chunks by weight of the conditions met, then score, then id; and the ladder.

    Args:
        conditions: Counts chunks.
        where: Hard filters.
        soft: SQL of the ladder's conditions.
        ladder: Conditions and weights.
        scoring: Scores of the query.
        k: Most to return; 0 counts every level.
        relax: Threshold, and whether chunks that meet no condition count.
    """
    parts: list[ScoredChunks] = []
    counts: dict[int, int] = {}
    have = 0
    # Then the counts of scalar indexes are the ladder: every chunk has a similarity.
    countable = isinstance(scoring, DenseScoring) and relax.threshold is None
    classes = iter([_WeightClass(where, {} if soft else {0: where.rows})])
    if soft and where.rows > scoring.read:
        classes = _weight_classes(conditions, where, soft, ladder, relax)
    for weight_class in classes:
        count_known = countable and bool(weight_class.steps)
        if count_known and k < 1:
            counts |= weight_class.steps
            continue
        if weight_class.where.rows <= scoring.read or k < 1 or (scoring.exact and not countable):
            scored = scoring.every(weight_class.where.sql, soft)
        else:
            scored = scoring.best(weight_class.where, k - have, soft)
        if relax.threshold is not None:
            scored = scored.select(scored.scores >= relax.threshold)
        if soft and not relax.unfiltered:
            scored = scored.select(scored.steps != 0)
        counts |= weight_class.steps if count_known else scored.step_counts()
        parts.append(scored)
        have += len(scored.ids)
        if 0 < k <= have:
            break
    return relaxed_reply(join_chunks(parts), counts, ladder, k)


def _weight_classes(
    conditions: Conditions, where: Where, soft: Sequence[str], ladder: Ladder, relax: Relaxation
) -> Iterator[_WeightClass]:
    """Classes that have chunks, heaviest first.

    Best first over a tree: each level decides one condition, heavy ones first, and a node with
    no chunk is dropped with all below it. The count of those that miss a condition is the
    difference, so a node costs one count.
    """
    order = sorted(range(len(soft)), key=lambda at: -ladder.weights[at])
    weight_below = [
        sum(ladder.weights[at] for at in order[depth:]) for depth in range(len(order) + 1)
    ]
    heap = [(-weight_below[0], 0, 0, 0, 0, where)]
    serial = 0
    weight, leaves = 0, list[tuple[int, Where]]()
    while heap:
        upper, _, depth, step, met, node = heapq.heappop(heap)
        if leaves and -upper < weight:
            yield _joined_class(leaves)
            leaves = []
        if depth == len(order):
            if step or relax.unfiltered:
                weight = met
                leaves.append((step, node))
            continue
        at = order[depth]
        both_sql = lance.both(node.sql, soft[at])
        there = conditions.count(both_sql)
        misses = lance.both(node.sql, f"NOT ({soft[at]})")
        for sql, rows, bit, more in (
            (both_sql, there, 1 << at, ladder.weights[at]),
            (misses, node.rows - there, 0, 0),
        ):
            if rows:
                serial += 1
                child = (-(met + more + weight_below[depth + 1]), serial, depth + 1, step | bit)
                heapq.heappush(heap, (*child, met + more, Where(sql, rows)))
    if leaves:
        yield _joined_class(leaves)


def _joined_class(leaves: Sequence[tuple[int, Where]]) -> _WeightClass:
    sql = " OR ".join(f"({where.sql})" for _, where in leaves)
    rows = sum(where.rows for _, where in leaves)
    return _WeightClass(Where(sql, rows), {step: where.rows for step, where in leaves})
