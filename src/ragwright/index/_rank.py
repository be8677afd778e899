"""Ranks: the best rows by score, and the ladder of relaxed filters, climbed in one pass.

The naive algorithm sends a query for each of the 2^n combinations of n soft filters and stops
when it has enough. A chunk is first found by the combination of exactly those filters that it
meets, so the position lists alone give every chunk its set of conditions. Sets of equal weight are
one level; only the chunks of the levels that k needs are scored exactly.

A relaxation level (``rung``) is a set of soft filters, as a number whose bit i means
``relax.soft[i]``; a ``ladder`` lists the levels of a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, Relaxation, RelaxationLevel
from ..flow import SearchReply
from ._postings import Rows, spelling
from ._segment import Mask, Segment

Scores = NDArray[np.float64]
Bits = NDArray[np.int64]
"""Sets of conditions: bit i means condition i."""

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
    """Rows with a score greater than ``above``; all that may be among the k best, and some more.

    Args:
        scores: One score per row.
        k: Number wanted, 1 or more; fewer are returned only if fewer are above.
        slack: Scores this far below the k-th best may belong to them.
        above: Scores must be greater than this.
    """
    least = -np.inf
    if k < len(scores):
        # At least k groups, and so k scores, reach the k-th best of the groups' maxima; finding it
        # is several times faster than selecting among all scores.
        groups, tops = min(64, len(scores) // (4 * k)), scores
        if groups > 1:
            tops = scores[: len(scores) // groups * groups].reshape(groups, -1).max(axis=0)
        least = float(np.partition(tops, len(tops) - k)[len(tops) - k]) - slack
    return np.flatnonzero(scores >= least if least > above else scores > above)


def round_scores(scores: Scores) -> Scores:
    """Scores rounded to 6 digits, as they are ranked; a tiny negative one is 0, not -0."""
    return np.asarray(np.rint(scores * 1e6) / 1e6 + 0.0, np.float64)


@dataclass(frozen=True, slots=True)
class ScoredChunks:
    """Chunks with their scores, rounded to 6 digits, and the soft conditions that each meets."""

    ids: Sequence[str]
    scores: Scores
    steps: Bits

    def select(self, chosen: NDArray[Any]) -> ScoredChunks:
        """The chunks at some places, or those that a mask marks."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        ids = [self.ids[place] for place in at.tolist()]
        return ScoredChunks(ids, self.scores[at], self.steps[at])

    def best(self, k: int) -> tuple[tuple[str, float], ...]:
        """The k best, ties by id."""
        order = sorted(zip((-self.scores).tolist(), self.ids, strict=True))[: max(0, k)]
        return tuple((name, 0.0 - negative) for negative, name in order)


def join_chunks(parts: Sequence[ScoredChunks]) -> ScoredChunks:
    """Join several results."""
    return ScoredChunks(
        [name for part in parts for name in part.ids],
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.steps for part in parts)]),
    )


MOST_FILTERS = 62
"""Most soft filters of one request: a level is a signed 64-bit number."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The distinct conditions of a request, each with its weight and its bits.

    Of equal conditions with several weights the largest counts, so that results do not depend on
    the order of the filters. A weight is the decimal as written, a multiple of ``unit``: sums are
    whole numbers, and 0.1 + 0.2 is 0.3.
    """

    conditions: tuple[Filter, ...]
    weights: tuple[int, ...]
    unit: Fraction
    bits: tuple[int, ...]

    @classmethod
    def of(cls, relax: Relaxation) -> Ladder:
        """The levels of a request.

        Raises:
            FilterError: More than 62 soft filters, a threshold that is not a number, or weights
                whose sum is not finite.
        """
        if len(relax.soft) > MOST_FILTERS:
            raise FilterError(
                f"{len(relax.soft)} soft filters, at most {MOST_FILTERS} are possible",
                hint="leave out those of least weight, or join values of one field in one filter",
            )
        if relax.threshold is not None and math.isnan(relax.threshold):
            raise FilterError(
                "the threshold is not a number", hint="give a number, or leave it out"
            )
        by_key: dict[object, tuple[Filter, float, int]] = {}
        for number, soft in enumerate(relax.soft):
            key = condition_key(soft.condition)
            first, weight, bits = by_key.get(key, (soft.condition, 0.0, 0))
            by_key[key] = first, max(weight, float(soft.weight)), bits | 1 << number
        rows = tuple(by_key.values())
        exact = [Fraction(repr(weight)) for _, weight, _ in rows]
        unit = Fraction(1, math.lcm(*(weight.denominator for weight in exact)))
        weights = tuple(int(weight / unit) for weight in exact)
        try:
            float(sum(weights) * unit)
        except OverflowError:
            raise FilterError("the weights of the soft filters sum to infinity") from None
        return cls(tuple(r[0] for r in rows), weights, unit, tuple(r[2] for r in rows))

    def _met(self, steps: Bits) -> NDArray[np.int64]:
        """Per step and condition 1 where its bit is set, else 0."""
        return np.asarray((steps[:, None] >> np.arange(len(self.bits))) & 1, np.int64)

    def totals(self, steps: Bits) -> NDArray[np.object_]:
        """Weight of each set of conditions, exact, in units of ``unit``, as Python's integers.

        Bit i of a step means ``conditions[i]``.
        """
        return np.asarray(self._met(steps).astype(object) @ np.array(self.weights, object))

    def all_asked(self, steps: Bits) -> list[int]:
        """The levels, in bits of the request, of sets of conditions."""
        return list(map(int, self._met(steps) @ np.array(self.bits, np.int64)))

    def step(self, rung: int) -> int:
        """The set of conditions of a level; the inverse of :meth:`all_asked`."""
        return sum(1 << place for place, bits in enumerate(self.bits) if rung & bits)


def condition_key(condition: Filter) -> object:
    """A key that is equal for two filters with the same meaning."""
    name = condition.field, condition.exclude, condition.missing
    if condition.values:
        return name, frozenset(map(spelling, condition.values))
    bounds = (condition.low, condition.high)
    return name, tuple(None if b is None else spelling(b) for b in bounds)


def rungs_of(relax: Relaxation, rungs: Sequence[int]) -> tuple[RelaxationLevel, ...]:
    """The levels of a search reply: weight, conditions met and missed.

    A weight is the float nearest to the exact sum of the weights as they are written.

    Args:
        relax: The soft filters of the search.
        rungs: ``SearchReply.rungs``, or any numbers whose bit i means ``relax.soft[i]``.

    Raises:
        FilterError: As in :meth:`View.relaxed`.
    """
    ladder = Ladder.of(relax)
    steps = {rung: ladder.step(rung) for rung in set(rungs)}
    weights = ladder.totals(np.array(list(steps.values()), np.int64)).tolist()
    levels = {}
    for (rung, step), weight in zip(steps.items(), weights, strict=True):
        parts: tuple[list[Filter], list[Filter]] = ([], [])
        for place, condition in enumerate(ladder.conditions):
            parts[not step >> place & 1].append(condition)
        levels[rung] = RelaxationLevel(
            float(weight * ladder.unit), tuple(parts[0]), tuple(parts[1])
        )
    return tuple(levels[rung] for rung in rungs)


def make_relaxed_reply(
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
    return make_relaxed_reply(
        join_chunks(chunks), dict(zip(sets.tolist(), counts.tolist(), strict=True)), ladder, k
    )
