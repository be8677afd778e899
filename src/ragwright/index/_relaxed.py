"""Relaxed filters in one pass: rank by weight of the conditions met, then score, then id.

The naive algorithm sends a query for each of the 2^n combinations of n soft filters and stops
when it has enough. A chunk is first found by the combination of exactly those filters that it
meets, so the position lists alone give every chunk its set of conditions. Sets of equal weight are
one *level*. Levels are scored from the heaviest down, some at a time, until k chunks are found: a
chunk on a level below the last one needed needs no similarity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from ..core import Relaxation
from ..flow import SearchReply
from ._filters import Mask, Positions
from ._rank import ROUNDING, Bits, Ladder, Rows, Scores, highest, summed
from ._segment import Segment

Steps = NDArray[np.integer]
"""Sets of conditions or levels, in the narrowest type that can hold them."""

_NONE = np.empty(0, np.intp)

_FEW = 9
"""Most filters for which the levels of all combinations are computed before reading rows."""

_TABLE = 16
"""Most filters for which one table holds the levels of all combinations."""

_SINGLY = 8
"""Levels that are searched one by one before all rows are assigned to levels."""

_EQUAL = 4
"""Most combinations of equal weight for which a level is searched by itself."""

_TOGETHER = 128
_GROUP = 512
"""Rows up to which small levels are scored together: fewer cost as much."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The scores of one segment's rows.

    Attributes:
        exact: Exact scores of some rows.
        near: Scores of some rows, each within ``slack`` of the exact one; None if the exact ones
            are as fast.
        slack: Most that a near score and the rounding to 6 digits may differ, together.
        above: Rounded scores must be greater than this.
    """

    exact: Callable[[Rows], Scores]
    near: Callable[[Rows], NDArray[np.float32]] | None = None
    slack: float = ROUNDING
    above: float = -np.inf

    def over(self, rows: Rows, threshold: float | None) -> Rows:
        """The rows whose rounded score is above ``above`` and reaches the threshold."""
        least = -np.inf if threshold is None else threshold
        bar = max(least, self.above)
        if bar == -np.inf or not len(rows):
            return rows
        if self.near is None:
            return rows[self._reaches(rows, least)]
        near = self.near(rows)
        # Python's float would become infinity, with a warning, for a bar that float32 cannot hold.
        some = np.flatnonzero(near >= np.float32(min(max(bar - self.slack, -1e30), 1e30)))
        rows, near = rows[some], near[some]
        sure = near > np.float64(bar + self.slack)
        doubtful = np.flatnonzero(~sure)
        if len(doubtful):
            sure[doubtful] = self._reaches(rows[doubtful], least)
        return rows[sure]

    def _reaches(self, rows: Rows, least: float) -> Mask:
        scores = rounded(self.exact(rows))
        return np.asarray((scores >= least) & (scores > self.above))

    def best(self, rows: Rows, k: int) -> Rows:
        """The rows among these that may be among the k best."""
        return highest((self.near or self.exact)(rows), k, self.slack)


@dataclass(slots=True)
class _Part:
    """One segment: the conditions its rows meet, and the rows found so far.

    Attributes:
        mask: Rows that the hard filters leave, None for all.
        steps: Of every row, the conditions it meets (bit i: condition i).
        few: Rows that meet some condition, and which, if no condition is wide.
        levels: Level of every row, or of those few; one past the last for excluded rows.
        lowest: Level of the rows that meet no condition, if the others are few.
        found: Rows found so far, each list on lower levels than those before it.
    """

    segment: Segment
    mask: Mask | None
    channel: Channel
    steps: Steps
    few: tuple[Rows, Steps] | None = None
    levels: Steps | None = None
    lowest: int = 0
    kept: list[Rows] = field(default_factory=list)

    @classmethod
    def of(
        cls, part: tuple[Segment, Mask | None, Channel], positions: Sequence[Positions]
    ) -> _Part:
        """A segment with the conditions that its rows meet."""
        segment, mask, channel = part
        # Narrow numbers: the scattered writes below should fit a cache.
        kind = np.min_scalar_type((1 << len(positions)) - 1)
        steps = np.zeros(segment.rows, kind)
        for place, matching in enumerate(positions):
            bit = kind.type(1 << place)
            if matching.wide:
                steps |= matching.mask() * bit
            else:
                steps[matching.rows] |= bit
        few = None
        if not any(matching.wide for matching in positions):
            met = np.flatnonzero(steps != 0)
            few = met, steps[met]
        return cls(segment, mask, channel, steps, few)

    def exactly(self, steps: Sequence[int]) -> Rows:
        """Rows that meet exactly one of these sets of conditions."""
        sets = self.steps if self.few is None or 0 in steps else self.few[1]
        chosen = sets == steps[0]
        for step in steps[1:]:
            chosen |= sets == step
        rows = np.flatnonzero(chosen)
        if self.few is not None and sets is self.few[1]:
            rows = self.few[0][rows]
        return rows if self.mask is None else rows[self.mask[rows]]

    def take(self, rows: Sequence[Rows], threshold: float | None) -> int:
        """Keep the rows that are over the threshold; returns their number."""
        if not rows:
            return 0
        some = rows[0] if len(rows) == 1 else np.concatenate(rows)
        self.kept.append(self.channel.over(some, threshold))
        return len(self.kept[-1])

    def all_kept(self, levels: _Levels) -> tuple[Rows, Steps]:
        """Rows found, and the level of each."""
        rows = self.kept[0] if len(self.kept) == 1 else np.concatenate([_NONE, *self.kept])
        return rows, levels.of(self.steps[rows])

    def place(self, levels: _Levels) -> NDArray[np.int64]:
        """Assign rows to their levels; returns the number of rows of each."""
        self.levels = levels.of(self.steps if self.few is None else self.few[1])
        if self.mask is not None:
            allowed = self.mask if self.few is None else self.mask[self.few[0]]
            self.levels[~allowed] = levels.count
        sizes = np.bincount(self.levels, minlength=levels.count + 1)[: levels.count]
        if self.few is not None:
            self.lowest = int(levels.of(np.zeros(1, np.int64))[0])
            if self.lowest < levels.count:
                sizes[self.lowest] += len(self.exactly([0]))
        return sizes

    def between(self, start: int, end: int) -> Rows:
        """Rows on the levels from ``start`` up to ``end`` (exclusive)."""
        assert self.levels is not None
        rows = np.flatnonzero((self.levels >= start) & (self.levels < end))
        if self.few is None:
            return rows
        rows = self.few[0][rows]
        return np.concatenate([rows, self.exactly([0])]) if start <= self.lowest < end else rows


def climb(
    parts: Sequence[tuple[Segment, Mask | None, Channel]],
    positions: Sequence[Sequence[Positions]],
    ladder: Ladder,
    k: int,
    relax: Relaxation,
) -> SearchReply:
    """The k best chunks by weight of the conditions met, then score, then id; and the ladder.

    Args:
        parts: Segments, the rows of each that meet the hard filters (None: all), scores.
        positions: Per condition of the ladder the rows that meet it, one array per segment.
        ladder: The conditions.
        k: Most to return; 0 counts every level.
        relax: Threshold, and whether chunks that meet no condition count.
    """
    held_parts = [
        _Part.of(part, [lists[at] for lists in positions]) for at, part in enumerate(parts)
    ]
    levels = _Levels(held_parts, ladder, relax)
    _walk_levels(held_parts, levels, k, relax)
    found_rows = [part.all_kept(levels) for part in held_parts]
    level = np.concatenate([rows_and_levels[1] for rows_and_levels in found_rows])
    if not len(level):
        return SearchReply(())
    last, room = _last_level(level, k)
    reply = _best_rows(held_parts, found_rows, k, last, room)
    steps_found = np.concatenate(
        [part.steps[rows] for part, (rows, _) in zip(held_parts, found_rows, strict=True)]
    )
    steps, counts = np.unique(steps_found[level <= last].astype(np.int64), return_counts=True)
    level_of = ladder.all_asked(steps)
    rung = dict(zip(steps.tolist(), level_of, strict=True))
    # Of equal weight: first those with more conditions, then those with earlier filters.
    order = np.lexsort((steps, -np.bitwise_count(steps).astype(np.int64), levels.of(steps)))
    totals = counts.tolist()
    return SearchReply(
        tuple((key, -negative + 0.0) for _, negative, key, _ in reply),
        rungs=tuple(rung[step] for _, _, _, step in reply),
        ladder=tuple((level_of[at], totals[at]) for at in order.tolist()),
    )


def _last_level(level: Steps, k: int) -> tuple[int, int]:
    """The last level with wanted chunks, and how many of it."""
    reached = np.cumsum(np.bincount(level))
    last = len(reached) - 1
    if k > 0:
        last = min(int(np.searchsorted(reached, k)), last)
    return last, k - (int(reached[last - 1]) if last else 0)


def _walk_levels(parts: Sequence[_Part], levels: _Levels, k: int, relax: Relaxation) -> None:
    """Find rows from the heaviest level down, whole levels, until k are found.

    The first levels are searched one by one. If they do not suffice, all rows are assigned to
    levels, so that many small levels are scored together; how many depends on the share of rows
    over the threshold so far.
    """
    start = tried = count = 0
    waiting: list[list[Rows]] = [[] for _ in parts]
    while levels.known and 0 < k > count and start < min(_SINGLY, levels.count):
        steps = levels.on(start)
        if len(steps) > _EQUAL:
            break
        for part, lists in zip(parts, waiting, strict=True):
            lists.append(part.exactly(steps))
        start += 1
        size = sum(len(rows) for lists in waiting for rows in lists)
        if size >= min(_TOGETHER, k - count) or start == min(_SINGLY, levels.count):
            count += sum(map(_Part.take, parts, waiting, repeat(relax.threshold)))
            tried += size
            waiting = [[] for _ in parts]
    count += sum(map(_Part.take, parts, waiting, repeat(relax.threshold)))
    if start == levels.count or 0 < k <= count:
        return
    sizes = sum(part.place(levels) for part in parts).tolist()  # type: ignore[union-attr]
    while start < levels.count and (count < k or k < 1):
        batch_size = math.inf if k < 1 else max(_GROUP, (k - count) * tried / max(count, 0.5))
        end, size = start + 1, sizes[start]
        # Do not start a level only to fill up the batch: it may be most of the corpus.
        while end < levels.count and size + sizes[end] <= batch_size:
            size += sizes[end]
            end += 1
        for part in parts:
            count += part.take([part.between(start, end)], relax.threshold)
        start, tried = end, tried + size


def rounded(scores: Scores) -> Scores:
    """Scores rounded to 6 digits, as they are ranked."""
    return np.asarray(np.rint(scores * 1e6) / 1e6, np.float64)


class _Levels:
    """Sets of conditions that rows may meet, and their levels by weight.

    Attributes:
        steps: The sets, ascending (bit i: condition i).
        level: Level of each set, 0 for the heaviest.
        count: Number of levels.
        known: True if they hold every combination; else only those that some row meets.
    """

    def __init__(self, parts: Sequence[_Part], ladder: Ladder, relax: Relaxation) -> None:
        conditions = len(ladder.conditions)
        self.known = conditions <= _FEW
        if self.known:
            self.steps, self.level = _all_sets(ladder.weights, relax.unfiltered)
        else:
            self.steps = _occurring_sets(parts, conditions)
            if not relax.unfiltered:
                self.steps = self.steps[self.steps != 0]
            self.level = _set_levels(ladder.weights, self.steps)
        self.count = int(self.level.max(initial=-1)) + 1
        self._kind = np.min_scalar_type(self.count)
        self._table: Steps | None = None
        if conditions <= _TABLE:
            self._table = np.full(1 << conditions, self.count, self._kind)
            self._table[self.steps] = self.level

    def on(self, level: int) -> list[int]:
        """The sets on a level."""
        return list(map(int, self.steps[self.level == level]))

    def of(self, steps: Steps) -> Steps:
        """Level of each of some sets; one past the last for a set that does not count."""
        if self._table is not None:
            return self._table.take(steps)
        if not len(self.steps):
            return np.zeros(len(steps), self._kind)
        places = np.searchsorted(self.steps, steps.astype(np.int64))
        at = np.minimum(places, len(self.steps) - 1)
        levels = self.level[at].astype(self._kind)
        levels[self.steps[at] != steps] = self.count
        return levels


def _occurring_sets(parts: Sequence[_Part], conditions: int) -> Bits:
    """The sets of conditions that some row meets, ascending."""
    if conditions <= _TABLE:
        size = 1 << conditions
        totals = np.zeros(size, np.int64)
        for part in parts:
            totals += np.bincount(part.steps, minlength=size)
        return np.flatnonzero(totals).astype(np.int64)
    return np.unique(np.concatenate([np.unique(part.steps) for part in parts])).astype(np.int64)


@lru_cache(maxsize=64)
def _all_sets(weights: tuple[int, ...], unfiltered: bool) -> tuple[Bits, NDArray[np.intp]]:
    """All sets of conditions of these weights, ascending, and the level of each."""
    steps = np.arange(0 if unfiltered or not weights else 1, 1 << len(weights), dtype=np.int64)
    return steps, _set_levels(weights, steps)


def _set_levels(weights: Sequence[int], steps: Bits) -> NDArray[np.intp]:
    """Level of each set, 0 for the heaviest."""
    _, level = np.unique(-summed(weights, steps), return_inverse=True)
    return np.asarray(level, np.intp)


def _best_rows(
    parts: Sequence[_Part], found_rows: Sequence[tuple[Rows, Steps]], k: int, last: int, room: int
) -> list[tuple[int, float, str, int]]:
    """The k best as (level, negative score, chunk id, step)."""
    if k < 1:
        return []
    entries: list[tuple[int, float, str, int]] = []
    for part, (rows, level) in zip(parts, found_rows, strict=True):
        sure = np.flatnonzero(level < last)
        border = np.flatnonzero(level == last)
        if len(border) > room:
            border = border[part.channel.best(rows[border], room)]
        at = np.concatenate([sure, border])
        rows, level = rows[at], level[at]
        scores = rounded(part.channel.exact(rows))
        order = np.lexsort((part.segment.rank[rows], -scores, level))[:k]
        rows = rows[order]
        entries += zip(
            level[order].tolist(),
            (-scores[order]).tolist(),
            part.segment.ids_of(rows),
            part.steps[rows].tolist(),
            strict=True,
        )
    return entries if len(parts) == 1 else sorted(entries)[:k]
