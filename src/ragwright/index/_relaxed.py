"""Relaxed filters in one pass: rank by the weight of the rung, then by score, then by id.

The naive algorithm sends a query for each of the 2^n combinations of n soft filters. A chunk is
first found by the combination of exactly those filters that it meets, so one look at each chunk
is enough: which filters it meets follows from the position lists, and sorting does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Relaxation
from ..flow import SearchReply
from ._fields import Rows as Positions
from ._filters import Mask
from ._ladder import Bits, Ladder
from ._rank import ROUNDING, Rows, Scores, highest
from ._segment import Segment

_TABLE = 16
"""Filters up to which the levels of all rungs stand in one table."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The scores of one segment's rows.

    Attributes:
        near: Scores of some rows, each within ``slack`` of the exact one.
        exact: Exact scores of some rows.
        slack: Most that a near score and the rounding to 6 digits may differ, together.
        above: Rounded scores must be greater than this.
    """

    near: Callable[[Rows], NDArray[np.floating]]
    exact: Callable[[Rows], Scores]
    slack: float = ROUNDING
    above: float = -np.inf


@dataclass(frozen=True, slots=True)
class Rungs:
    """One segment: the rows that may be found, and what each meets (bit i: condition i)."""

    segment: Segment
    channel: Channel
    rows: Rows
    steps: Bits


def climb(
    parts: Sequence[tuple[Segment, Mask | None, Channel]],
    positions: Sequence[Sequence[Positions]],
    ladder: Ladder,
    k: int,
    relax: Relaxation,
) -> SearchReply:
    """The k best chunks by weight of their rung, then score, then id; and the ladder.

    Args:
        parts: Segments, the rows of each that the hard filters leave (None: all), scores.
        positions: Per condition of the ladder, the rows that meet it, one array a segment.
        ladder: The conditions.
        k: Most to return.
        relax: Threshold, and whether chunks that meet no condition count.
    """
    kept = [
        _kept(segment, mask, channel, [lists[at] for lists in positions], relax)
        for at, (segment, mask, channel) in enumerate(parts)
    ]
    steps, counts = _counted([one.steps for one in kept], len(ladder.conditions))
    if not len(steps):
        return SearchReply(())
    weights = ladder.totals(steps)
    _, level = np.unique(-weights, return_inverse=True)
    reply = _listed(kept, _Levels(steps, level, counts, len(ladder.conditions)), k)
    # Of equal weight: first what meets more, then the filters asked for first.
    order = np.lexsort((steps, -np.bitwise_count(steps).astype(np.int64), level))
    shown = ladder.all_asked(steps)
    rung = dict(zip(steps.tolist(), shown, strict=True))
    totals = counts.tolist()
    return SearchReply(
        tuple((key, -negative + 0.0) for _, negative, key, _ in reply),
        rungs=tuple(rung[step] for _, _, _, step in reply),
        ladder=tuple((shown[at], totals[at]) for at in order.tolist()),
    )


def _kept(
    segment: Segment,
    mask: Mask | None,
    channel: Channel,
    positions: Sequence[Positions],
    relax: Relaxation,
) -> Rungs:
    """The rows over the threshold. Hard filters come first: nothing below sees another row."""
    rows = np.arange(segment.rows) if mask is None else np.flatnonzero(mask)
    # Narrow numbers: the scattered writes below should stay within a cache.
    kind = np.min_scalar_type((1 << len(positions)) - 1)
    steps = np.zeros(segment.rows, kind)
    for place, met in enumerate(positions):
        steps[met] |= kind.type(1 << place)
    if positions and not relax.unfiltered:
        rows = rows[steps[rows] != 0]
    least = -np.inf if relax.threshold is None else relax.threshold
    bar = max(least, channel.above)
    if bar > -np.inf and len(rows):
        near = channel.near(rows)
        # Python's float would make an infinity, and a warning, of a bar that float32 cannot hold.
        some = np.flatnonzero(near >= near.dtype.type(np.clip(bar - channel.slack, -1e30, 1e30)))
        rows, near = rows[some], near[some]
        sure = near > np.float64(bar + channel.slack)
        doubtful = np.flatnonzero(~sure)
        scores = rounded(channel.exact(rows[doubtful]))
        sure[doubtful] = (scores >= least) & (scores > channel.above)
        rows = rows[sure]
    return Rungs(segment, channel, rows, steps[rows].astype(np.int64))


def rounded(scores: Scores) -> Scores:
    """Scores as they are ranked: to 6 digits."""
    return np.asarray(np.rint(scores * 1e6) / 1e6, np.float64)


def _counted(lists: Sequence[Bits], conditions: int) -> tuple[Bits, NDArray[np.int64]]:
    """The distinct values and how often each stands in the lists."""
    if conditions <= _TABLE:
        size = 1 << conditions
        totals = np.zeros(size, np.int64)
        for one in lists:
            totals += np.bincount(one, minlength=size)
        found = np.flatnonzero(totals)
        return found.astype(np.int64), totals[found]
    values = np.concatenate(lists) if lists else np.empty(0, np.int64)
    found, counts = np.unique(values, return_counts=True)
    return found, counts.astype(np.int64)


class _Levels:
    """Distinct weights from 0, the heaviest; and the level at which k chunks are reached."""

    def __init__(
        self, steps: Bits, level: NDArray[np.intp], counts: NDArray[np.int64], conditions: int
    ) -> None:
        self._steps = steps
        self._level = level
        self._reached = np.cumsum(np.bincount(level, counts)).astype(np.int64)
        self._table: NDArray[np.intp] | None = None
        if conditions <= _TABLE:
            self._table = np.zeros(1 << conditions, np.intp)
            self._table[steps] = level

    def of(self, steps: Bits) -> NDArray[np.intp]:
        """Level of each of some steps."""
        if self._table is not None:
            return self._table[steps]
        return self._level[np.searchsorted(self._steps, steps)]

    def last(self, k: int) -> tuple[int, int]:
        """The last level from which chunks are wanted, and how many of it."""
        level = min(int(np.searchsorted(self._reached, k)), len(self._reached) - 1)
        before = int(self._reached[level - 1]) if level else 0
        return level, k - before


def _listed(kept: Sequence[Rungs], levels: _Levels, k: int) -> list[tuple[int, float, str, int]]:
    """The k best as (level, negative score, chunk id, step)."""
    if k < 1:
        return []
    last, room = levels.last(k)
    found: list[tuple[int, float, str, int]] = []
    for one in kept:
        level = levels.of(one.steps)
        at = np.flatnonzero(level < last)
        border = np.flatnonzero(level == last)
        if len(border) > room:
            near = one.channel.near(one.rows[border])
            border = border[highest(near, room, one.channel.slack)]
        at = np.concatenate([at, border])
        rows, level = one.rows[at], level[at]
        scores = rounded(one.channel.exact(rows))
        order = np.lexsort((one.segment.rank[rows], -scores, level))[:k]
        found += zip(
            level[order].tolist(),
            (-scores[order]).tolist(),
            one.segment.ids_of(rows[order]),
            one.steps[at][order].tolist(),
            strict=True,
        )
    return found if len(kept) == 1 else sorted(found)[:k]
