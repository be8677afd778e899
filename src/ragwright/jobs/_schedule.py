"""When a job is due: a cron expression in a time zone, across changes of the clock.

The library reads the expression and steps through wall-clock times, which know no time zone. From
wall clock to moment is decided here, because there it runs a fixed time twice where the hour is
repeated. The rules are those of cron(8):

- A schedule that names hours runs once for each time it names. A time that is skipped when clocks
  go forward runs at the first moment after the gap; one that comes twice runs the first time.
- A schedule for every hour (``*/15 * * * *``) follows the time that passes: it runs in both of two
  equal hours, and makes up for nothing after a gap.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ..core import ConfigError, require

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_MOST = (59, 23, 31, 12, 7)
"""The greatest number of each field; a longer step would meet its first value alone."""
_DAYS = ((2, "1-31"), (4, "0-6"))
"""What a star with a step stands for in the fields of days.

With a star in one of them the library takes a list of all days in the other for no restriction.
"""
_ITEM = re.compile(r"(\*|\w+(-\w+)?)(/[1-9]\d*)?", re.ASCII)
_NAMES: tuple[set[str], ...] = (
    set(),
    set(),
    set(),
    {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
    {"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall-clock time has no zone
_QUARTER_DAY = 21600


class Schedule:
    """The moments of a cron expression in a time zone; moments are seconds since 1970 UTC.

    Day of month and day of week are either-or where both are restricted; Sunday is 0 and 7.

    Args:
        expression: Five fields, or a nickname as ``@daily``.
        timezone: A name as ``Europe/Paris``.
        where: Place of the expression, for messages.

    Raises:
        ConfigError: The expression is wrong, or no date meets it.
        MissingExtraError: The package that reads cron expressions is not installed.
    """

    def __init__(self, expression: str, timezone: str, where: str = "") -> None:
        self._cron = require("croniter", "jobs", "a schedule")
        self._zone = ZoneInfo(timezone)
        self._fields = _fields(expression, where)
        try:
            walk = self._walk(_EPOCH)
            walk.get_next(datetime)
        except (self._cron.CroniterError, ValueError) as error:
            raise ConfigError(
                f"no date meets the schedule {expression!r}"
                if isinstance(error, self._cron.CroniterBadDateError)
                else f"the schedule {expression!r} cannot be read: {error}",
                where=where,
                hint="minute hour day-of-month month day-of-week, as: 30 7 * * mon-fri",
            ) from error
        self._hourly = walk.expanded[1] == ["*"]

    def next(self, after: float) -> float:
        """The first moment after another."""
        return self._next_elapsed(after) if self._hourly else self._next_named(after)

    def latest(self, after: float, until: float) -> float | None:
        """The last moment after ``after`` and not after ``until``, None where there is none."""
        width = 3600.0
        while True:  # ever wider, so that a year of minutes is not walked through
            start = max(after, until - width)
            found = None
            at = self.next(start)
            while at <= until:
                found, at = at, self.next(at)
            if found is not None or start == after:
                return found
            width *= 4

    def local(self, at: float) -> datetime:
        """A moment in the schedule's time zone."""
        return datetime.fromtimestamp(at, self._zone)

    def _walk(self, wall: datetime) -> Any:
        return self._cron.croniter(self._fields, wall)

    def _next_named(self, after: float) -> float:
        # moments rise with wall-clock times here, so what lies before this wall clock is over
        walk = self._walk(self.local(after).replace(tzinfo=None))
        while True:
            at = self._moment(walk.get_next(datetime))
            if at > after:
                return at

    def _moment(self, wall: datetime) -> float:
        """The first moment with a wall-clock time, or the end of the gap that it lies in."""
        early, late = (wall.replace(tzinfo=self._zone, fold=f).timestamp() for f in (0, 1))
        if self.local(early).replace(tzinfo=None) == wall:
            return early
        return float(self._change(math.floor(late), math.ceil(early)) or early)

    def _next_elapsed(self, after: float) -> float:
        origin = math.floor(after)
        start = origin
        while True:
            offset = self._offset(origin)
            wall = _EPOCH + timedelta(seconds=start) + offset
            found = self._walk(wall).get_next(datetime)
            at = (found - offset - _EPOCH).total_seconds()
            change = self._change(origin, int(at))
            if change is None:
                return float(at)
            origin, start = change, change - 1

    def _offset(self, at: float) -> timedelta:
        return datetime.fromtimestamp(at, UTC).astimezone(self._zone).utcoffset() or timedelta()

    def _change(self, start: int, end: int) -> int | None:
        """The first second after ``start`` and not after ``end`` with another offset."""
        offset = self._offset(start)
        low = start
        while low < end:
            high = min(low + _QUARTER_DAY, end)
            if self._offset(high) != offset:
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self._offset(middle) == offset else (low, middle)
                return high
            low = high
        return None


def _fields(expression: str, where: str) -> str:
    """The five fields; what the library reads beyond cron's own words is refused.

    It would take a sixth field for seconds, ``r`` for a random time, ``5-5`` for every one, and
    ``5-1`` for a range around the end.
    """
    text = expression.strip().lower()
    if text.startswith("@") and text not in _NICKNAMES:
        raise ConfigError(
            f"the schedule {expression!r} is not known",
            where=where,
            hint=f"known: {', '.join(_NICKNAMES)}",
        )
    fields = _NICKNAMES.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ConfigError(
            f"the schedule {expression!r} has {len(fields)} fields, not 5",
            where=where,
            hint="minute hour day-of-month month day-of-week, as: 30 7 * * mon-fri",
        )
    for field, names, meaning, most in zip(fields, _NAMES, _FIELDS, _MOST, strict=True):
        for item in field.split(","):
            if not _readable(item, names, most):
                raise ConfigError(
                    f"{item!r} is no {meaning} in the schedule {expression!r}",
                    where=where,
                    hint="numbers, names (mon, jan), ranges 1-5, steps */15, lists 1,3,5",
                )
    for at, span in _DAYS:
        fields[at] = re.sub(r"(?<![^,])\*(?=/)", span, fields[at])
    return " ".join(fields)


def _readable(item: str, names: set[str], most: int) -> bool:
    if not _ITEM.fullmatch(item):
        return False
    values, _, step = item.partition("/")
    if step and int(step) > most:
        return False
    ends = [end for end in values.split("-") if end != "*"]
    if len(ends) == 2 and (ends[0] == ends[1] or _goes_back(ends, names)):
        return False
    return all(end.isdigit() or end in names for end in ends)


def _goes_back(ends: list[str], names: set[str]) -> bool:
    """A range of numbers from a greater to a lesser one; ``sat-sun`` and ``nov-feb`` are meant."""
    return not names and all(end.isdigit() for end in ends) and int(ends[0]) > int(ends[1])
