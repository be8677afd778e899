"""The naive algorithm of relaxed filters: one query for each combination, strictest first.

What :meth:`View.relaxed` answers in one pass, as the definition reads, to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ragwright.core import Filter, FilterError, Relaxation
from ragwright.flow import SearchReply
from ragwright.index import Ladder, View

Matrix = NDArray[np.float32]


def naive_relaxed(
    view: View, query: str | Matrix, k: int, relax: Relaxation, filters: Sequence[Filter] = ()
) -> SearchReply:
    """Up to k chunks by every combination of soft filters in turn, at the cost of 2^n queries.

    Combinations come by total weight; of equal weight those of more filters first, then as
    ``itertools.combinations`` gives them. Within one by score, then id. A combination is
    finished before the search stops. Equal to :meth:`View.relaxed` wherever all sums of weights
    differ; where some are equal, that merges combinations which this visits one by one.
    ``rungs`` holds the combination that found each candidate, and ``ladder`` how many each
    combination found that no earlier one had, as far as they were tried.
    """
    ladder, everything = Ladder.of(relax), view.statistics().chunks
    for condition in ladder.conditions:
        _search(view, query, 0, [*filters, condition])
    found: dict[str, tuple[float, int]] = {}
    counts: list[tuple[int, int]] = []
    for step in _steps(ladder):
        if len(found) >= k:
            break
        if not step and not relax.unfiltered and ladder.conditions:
            continue
        chosen = [c for at, c in enumerate(ladder.conditions) if step >> at & 1]
        try:
            answer = _search(view, query, everything, [*filters, *chosen])
        except FilterError:
            answer = ()  # each alone is known: no chunk meets these together
        (rung,) = ladder.all_asked(np.array([step], np.int64))
        least = -np.inf if relax.threshold is None else relax.threshold
        fresh = {key: (at, rung) for key, at in answer if key not in found and at >= least}
        found |= fresh
        if fresh:
            counts.append((rung, len(fresh)))
    best = list(found.items())[: max(0, k)]
    rungs = tuple(rung for _, (_, rung) in best)
    candidates = tuple((key, score) for key, (score, _) in best)
    return SearchReply(candidates, rungs=rungs, ladder=tuple(counts))


def _search(
    view: View, query: str | Matrix, k: int, filters: Sequence[Filter]
) -> tuple[tuple[str, float], ...]:
    if isinstance(query, str):
        return view.keyword(query, k, filters)
    return view.dense(np.atleast_2d(query), k, filters)[0]


def _steps(ladder: Ladder) -> Iterator[int]:
    """Every combination (bit i: condition i) in the order in which the algorithm tries them."""
    size = len(ladder.conditions)
    steps = [
        sum(1 << place for place in chosen)
        for count in range(size, -1, -1)
        for chosen in combinations(range(size), count)
    ]
    weights = ladder.totals(np.array(steps, np.int64)).tolist()
    for _, step in sorted(zip(weights, steps, strict=True), key=lambda row: -row[0]):
        yield step
