"""Ranks: the best rows by score, and the ladder of relaxed filters.

A relaxation level (``rung``) is a set of soft filters, as a number whose bit i means
``relax.soft[i]``; a ``ladder`` lists the levels of a search.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, Relaxation, RelaxationLevel
from ._fields import Rows, spelling

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
    least = reached(scores, k) - slack if k < len(scores) else -np.inf
    return np.flatnonzero(scores >= least if least > above else scores > above)


def reached(scores: NDArray[Any], k: int) -> float:
    """A score that at least k scores reach, near the k-th best.

    At least k groups, and so k scores, reach the k-th best of the groups' maxima; finding it is
    several times faster than selecting among all scores.
    """
    groups = min(64, len(scores) // (4 * k))
    if groups > 1:
        scores = scores[: len(scores) // groups * groups].reshape(groups, -1).max(axis=0)
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


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

    def step_counts(self) -> dict[int, int]:
        """The number of chunks that meet each set of conditions."""
        steps, counts = np.unique(self.steps, return_counts=True)
        return dict(zip(steps.tolist(), counts.tolist(), strict=True))


def join_chunks(parts: Sequence[ScoredChunks]) -> ScoredChunks:
    """Join several results."""
    return ScoredChunks(
        [name for part in parts for name in part.ids],
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.steps for part in parts)]),
    )


MOST_FILTERS = 62
"""Most soft filters of one request: a level is a signed 64-bit number."""

_MOST_COMBINATIONS = 512

Totals = NDArray[Any]
"""Whole numbers: int64, or Python's own (``object``) if 62 bits are too few."""


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
        weights, unit = _whole_weights(tuple(weight for _, weight, _ in rows))
        try:
            float(sum(weights) * unit)
        except OverflowError:
            raise FilterError("the weights of the soft filters sum to infinity") from None
        return cls(tuple(r[0] for r in rows), weights, unit, tuple(r[2] for r in rows))

    def totals(self, steps: Bits) -> Totals:
        """Weight of each set of conditions, exact, in units of ``unit``.

        Bit i of a step means ``conditions[i]``.
        """
        return summed(self.weights, steps)

    def asked(self, step: int) -> int:
        """The level, in bits of the request, of a set of conditions."""
        (rung,) = self.all_asked(np.array([step], np.int64))
        return rung

    def all_asked(self, steps: Bits) -> list[int]:
        """The levels of many sets of conditions."""
        if all(bits == 1 << place for place, bits in enumerate(self.bits)):
            return list(map(int, steps))
        levels = np.zeros(len(steps), np.int64)
        for place, bits in enumerate(self.bits):
            levels[(steps >> place & 1) == 1] |= bits
        return list(map(int, levels))

    def step(self, rung: int) -> int:
        """The set of conditions of a level; the inverse of :meth:`asked`."""
        return sum(1 << place for place, bits in enumerate(self.bits) if rung & bits)


def summed(weights: Sequence[int], steps: Bits) -> Totals:
    """Sum of the weights whose bit is set, per step."""
    if sum(weights) < 1 << 62:
        places = np.arange(len(weights), dtype=np.int64)
        met = (steps[:, None] >> places) & 1
        return np.asarray(met @ np.array(weights, np.int64))
    totals = np.zeros(len(steps), object)
    for place, weight in enumerate(weights):
        totals[(steps >> place & 1) == 1] += weight
    return totals


@lru_cache(maxsize=256)
def _whole_weights(weights: tuple[float, ...]) -> tuple[tuple[int, ...], Fraction]:
    """Weights as multiples of their greatest common unit."""
    exact = [Fraction(repr(weight)) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    multiples = [int(weight * scale) for weight in exact]
    common = math.gcd(*multiples) or 1
    return tuple(weight // common for weight in multiples), Fraction(common, scale)


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


@dataclass(frozen=True, slots=True)
class RungRate:
    """The share of searches in which a combination of soft filters on certain fields had no chunk.

    Attributes:
        fields: Fields of the combination, sorted, one entry per filter: two topics are
            ``("topic", "topic")``; empty for no filter.
        asked: Number of combinations of these fields in the searches.
        empty: Number of them for which no chunk over the threshold met all filters.
    """

    fields: tuple[str, ...]
    asked: int
    empty: int

    @property
    def rate(self) -> float:
        """Share without a chunk, 0 to 1."""
        return self.empty / self.asked


def rung_rates(
    searches: Iterable[tuple[Relaxation, Sequence[tuple[int, int]]]],
) -> tuple[RungRate, ...]:
    """Zero-hit rate of every combination of fields over many searches, most filters first.

    A combination is empty where no chunk over the threshold meets *at least* its filters, as
    one query with these filters alone would find. For a search with more than nine filters (512
    combinations) only all filters together, each single filter and no filter are counted.

    Args:
        searches: Soft filters and full ``ladder`` of each search, as with k = 0. A ladder that ends
            at the last candidate would count lighter levels as empty.

    Raises:
        FilterError: As in :meth:`View.relaxed`.
    """
    searched: dict[tuple[str, ...], int] = {}
    empty: dict[tuple[str, ...], int] = {}
    for relax, counted in searches:
        ladder = Ladder.of(relax)
        steps = [ladder.step(rung) for rung, count in counted if count]
        size = len(ladder.conditions)
        some = {0, *(1 << place for place in range(size)), (1 << size) - 1}
        every = range(1 << size) if 1 << size <= _MOST_COMBINATIONS else sorted(some)
        occurring = np.array(steps, np.int64)
        for step in every:
            if not step and not relax.unfiltered and size:
                continue
            picked = [c.field for at, c in enumerate(ladder.conditions) if step >> at & 1]
            fields = tuple(sorted(picked))
            searched[fields] = searched.get(fields, 0) + 1
            if not ((occurring & step) == step).any():
                empty[fields] = empty.get(fields, 0) + 1
    order = sorted(searched, key=lambda fields: (-len(fields), fields))
    return tuple(RungRate(fields, searched[fields], empty.get(fields, 0)) for fields in order)
