"""Schedules: a cron expression in a time zone, across changes of the clock.

The rules are those of cron(8):

- A schedule with fixed hours runs once for each of its times. A time that is skipped when clocks go
forward runs at the first moment after the gap; one that occurs twice runs the first time.
- A schedule for every hour (``*/15 * * * *``) follows elapsed time: it runs in both of two equal
hours, and catches up nothing after a gap.

No library implements these rules: see ``docs/decisions/0013-jobs.md``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from ..core import ConfigError

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, Sequence[str]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _WEEKDAYS),
)
"""Meaning, least and greatest number, names of numbers."""

_ITEM = re.compile(r"(?:\*|(\w{1,9})(?:-(\w{1,9}))?)(?:/([1-9]\d?))?", re.ASCII)
_HINT = "minute hour day-of-month month day-of-week, as: 30 7 * * mon-fri"
_HORIZON = 9 * 366
"""Days within which every date recurs; there is no 29th of February from 2096 to 2104."""

_SHIFT = timedelta(hours=4)
"""Upper bound on changes of the clock."""


class Schedule:
    """The times of a cron expression in a time zone; times are seconds since 1970 UTC.

    If day of month and day of week are both restricted, either is enough; Sunday is 0 and 7.

    Args:
        expression: Five fields, or a nickname such as ``@daily``.
        timezone: A name such as ``Europe/Paris``.
        where: Place of the expression, for messages.

    Raises:
        ConfigError: The expression is wrong, or no date matches it.
    """

    def __init__(self, expression: str, timezone: str, where: str = "") -> None:
        self._zone = ZoneInfo(timezone)
        fields = _fields(expression, where)
        self._minutes, self._hours, self._days, self._months, self._weekdays = (
            _values(field, at, f"in the schedule {expression!r}", where)
            for at, field in enumerate(fields)
        )
        self._either = all("*" not in fields[at].split(",") for at in (2, 4))
        if next(self._walls(datetime(2000, 1, 1)), None) is None:  # noqa: DTZ001
            fault = f"no date matches the schedule {expression!r}"
            raise ConfigError(fault, where=where, hint=_HINT)

    def next(self, after: float) -> float:
        """Return the first time after another."""
        if len(self._hours) == 24:
            return self._next_elapsed(after)
        # times increase with wall-clock times here, so earlier wall-clock times are over
        walls = self._walls(self.local(after).replace(tzinfo=None))
        return next(at for at in map(self._moment, walls) if at > after)

    def latest(self, after: float, until: float) -> float | None:
        """Return the last time after ``after`` and up to ``until``; None if there is none."""
        width = 3600.0
        while True:  # with growing steps, to avoid walking through a year of minutes
            start = max(after, until - width)
            latest = None
            at = self.next(start)
            while at <= until:
                latest, at = at, self.next(at)
            if latest is not None or start == after:
                return latest
            width *= 4

    def local(self, at: float) -> datetime:
        """Convert a moment to the schedule's time zone."""
        return datetime.fromtimestamp(at, self._zone)

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Yield the wall-clock times from ``start`` on that match the expression."""
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        for days in range(_HORIZON):
            day = midnight + timedelta(days=days)
            if self._meets(day):
                for hour in self._hours:
                    if days or hour >= start.hour:
                        walls = (day.replace(hour=hour, minute=minute) for minute in self._minutes)
                        yield from (wall for wall in walls if wall >= start)

    def _meets(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        by_month, by_week = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        return by_month or by_week if self._either else by_month and by_week

    def _moment(self, wall: datetime) -> float:
        """Return the first time with a wall-clock time, or the end of the gap around it."""
        first, second = (wall.replace(tzinfo=self._zone, fold=f).timestamp() for f in (0, 1))
        if self.local(first).replace(tzinfo=None) == wall:
            return first
        gap = range(int(second), int(first) + 1)  # with the offset after it, and before it
        before = self.local(gap[0]).utcoffset()
        return float(
            gap[bisect_left(gap, True, key=lambda at: self.local(at).utcoffset() != before)]
        )

    def _next_elapsed(self, after: float) -> float:
        at = after // 60 * 60 + 60
        wall = next(self._walls(self.local(after).replace(tzinfo=None) - _SHIFT))
        at = max(at, (wall - _SHIFT).replace(tzinfo=self._zone, fold=1).timestamp())
        while not (self._meets(here := self.local(at)) and here.minute in self._minutes):
            at += 60
        return at


def _fields(expression: str, where: str) -> list[str]:
    text = expression.strip().lower()
    if text.startswith("@") and text not in _NICKNAMES:
        fault = f"unknown schedule {expression!r}"
        raise ConfigError(fault, where=where, hint=f"known: {', '.join(_NICKNAMES)}")
    fields = _NICKNAMES.get(text, text).split()
    if len(fields) != len(_FIELDS):
        fault = f"the schedule {expression!r} has {len(fields)} fields, not 5"
        raise ConfigError(fault, where=where, hint=_HINT)
    return fields


def _values(field: str, at: int, place: str, where: str) -> list[int]:
    """Return the numbers of a field, ascending; ranges of names wrap around: ``nov-feb``."""
    meaning, low, high, names = _FIELDS[at]
    cycle = 7 if names is _WEEKDAYS else high - low + 1
    numbers: set[int] = set()
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        words = [word for word in match.groups()[:2] if word] if match else [""]
        ends = [_number(word, names) for word in words]
        step = int((match and match[3]) or 1)
        # a range with equal ends, or one that wraps around in a field without names
        back = len(ends) == 2 and (words[0] == words[1] or (ends[0] > ends[1] and not names))
        if -1 in ends or step > high or back:
            raise ConfigError(
                f"{item!r} is not a valid {meaning} {place}",
                where=where,
                hint="numbers, names (mon, jan), ranges 1-5, steps */15, lists 1,3,5",
            )
        if any(not low <= end <= high for end in ends):
            fault = f"{item!r} is invalid {place}: a {meaning} is {low} to {high}"
            raise ConfigError(fault, where=where, hint=_HINT)
        first = ends[0] if ends else low
        last = ends[-1] if len(ends) == 2 or (ends and match and not match[3]) else low + cycle - 1
        length = last - first if last >= first else last - first + cycle
        numbers.update((first - low + n) % cycle + low for n in range(0, length + 1, step))
    return sorted(numbers)


def _number(text: str, names: Sequence[str]) -> int:
    """Return a number or the number of a name; -1 if neither."""
    if text in names:
        return names.index(text)
    return int(text) if text.isdigit() else -1
