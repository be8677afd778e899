"""Relaxed filters in one pass: rank by weight of the conditions met, then score, then id.

The naive algorithm sends a query for each of the 2^n combinations of n soft filters and stops
when it has enough. A chunk is first found by the combination of exactly those filters that it
meets, so the position lists alone give every chunk its set of conditions. Sets of equal weight are
one *level*; only the chunks of the levels that k needs are scored exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Relaxation
from ..flow import SearchReply
from ._fields import Rows
from ._filters import Mask
from ._rank import ROUNDING, Bits, Ladder, ScoredChunks, Scores, highest, join_chunks, round_scores
from ._segment import Segment


def relaxed_reply(
    chunks: ScoredChunks, counts: Mapping[int, int], ladder: Ladder, k: int
) -> SearchReply:
    """The reply: candidates in order, their rungs, and the ladder down to the last candidate.

    Args:
        chunks: All chunks that may be among the k best.
        counts: The number of chunks on each level down to the last one that is needed.
        ladder: The conditions.
        k: Most candidates; 0 returns only the ladder.
    """
    steps = list(counts)
    weights = dict(zip(steps, ladder.totals(np.array(steps, np.int64)).tolist(), strict=True))
    order = sorted(
        range(len(chunks.ids)),
        key=lambda at: (-weights[int(chunks.steps[at])], -chunks.scores[at], chunks.ids[at]),
    )[: max(0, k)]
    if 0 < k == len(order):
        lowest = weights[int(chunks.steps[order[-1]])]
        steps = [step for step in steps if weights[step] >= lowest]
    # Of equal weight: first those with more conditions, then those with earlier filters.
    steps.sort(key=lambda step: (-weights[step], -step.bit_count(), step))
    level_of = dict(zip(steps, ladder.all_asked(np.array(steps, np.int64)), strict=True))
    return SearchReply(
        tuple((chunks.ids[at], float(chunks.scores[at])) for at in order),
        rungs=tuple(level_of[int(chunks.steps[at])] for at in order),
        ladder=tuple((level_of[step], counts[step]) for step in steps),
    )


@dataclass(frozen=True, slots=True)
class RowScores:
    """The scores of one segment's rows.

    Attributes:
        near: Score of every row, within ``slack`` of the exact one.
        exact: Exact scores of some rows.
        slack: Most that a near score and the rounding to 6 digits may differ, together.
        above: Rounded scores must be greater than this.
    """

    near: NDArray[Any]
    exact: Callable[[Rows], Scores]
    slack: float = ROUNDING
    above: float = -np.inf

    def over(self, rows: Rows, threshold: float | None) -> Rows:
        """The rows whose rounded score is above ``above`` and reaches the threshold."""
        least = -np.inf if threshold is None else threshold
        bar = max(least, self.above)
        near = self.near[rows].astype(np.float64)
        over = near > bar + self.slack
        doubtful = np.flatnonzero(~over & (near >= bar - self.slack))
        scores = round_scores(self.exact(rows[doubtful]))
        over[doubtful] = (scores >= least) & (scores > self.above)
        return rows[over]


@dataclass(frozen=True, slots=True)
class RelaxedPart:
    """One segment: rows that the hard filters leave, the rows that meet each condition of the
    ladder, and the scores.
    """

    segment: Segment
    mask: Mask
    positions: Sequence[Rows]
    scores: RowScores

    def rows_and_steps(self, relax: Relaxation) -> tuple[Rows, Bits]:
        """The rows that count, and the conditions that each meets (bit i: condition i)."""
        steps = np.zeros(self.segment.rows, np.int64)
        for place, matching in enumerate(self.positions):
            steps[matching] |= 1 << place
        allowed = self.mask & (steps != 0) if self.positions and not relax.unfiltered else self.mask
        rows = self.scores.over(np.flatnonzero(allowed), relax.threshold)
        return rows, steps[rows]


def climb(parts: Sequence[RelaxedPart], ladder: Ladder, k: int, relax: Relaxation) -> SearchReply:
    """The k best chunks by weight of the conditions met, then score, then id; and the ladder.

    Args:
        parts: The segments.
        ladder: The conditions.
        k: Most to return; 0 counts every level.
        relax: Threshold, and whether chunks that meet no condition count.
    """
    found = [part.rows_and_steps(relax) for part in parts]
    sets, counts = np.unique(np.concatenate([steps for _, steps in found]), return_counts=True)
    if not len(sets):
        return SearchReply(())
    weights, level_of_set = np.unique(-ladder.totals(sets), return_inverse=True)
    totals = np.zeros(len(weights), np.int64)
    np.add.at(totals, level_of_set, counts)
    reached = np.cumsum(totals)
    last = min(int(np.searchsorted(reached, k)), len(reached) - 1)
    room = k - int(reached[last] - totals[last])
    chunks = []
    for part, (rows, steps) in zip(parts, found, strict=True):
        levels = level_of_set[np.searchsorted(sets, steps)]
        border = np.flatnonzero(levels == last)
        if len(border) > room > 0:
            border = border[highest(part.scores.near[rows[border]], room, part.scores.slack)]
        at = np.concatenate([np.flatnonzero(levels < last), border]) if k > 0 else border[:0]
        scores = round_scores(part.scores.exact(rows[at]))
        chunks.append(ScoredChunks(part.segment.ids_of(rows[at]), scores, steps[at]))
    return relaxed_reply(
        join_chunks(chunks), dict(zip(sets.tolist(), counts.tolist(), strict=True)), ladder, k
    )
