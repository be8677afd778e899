"""Jobs as declared in the project file, and their validation."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ..core import (
    ConfigError,
    NamedOptions,
    Placed,
    build_options,
    notice_address_faults,
    option,
    suggest_name,
)
from ..project import Settings


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of a job: a ragwright command line, run without a shell.

    Attributes:
        run: The command line, quoted as in a shell.
    """

    run: str
    when: str = option("", "Flag that must be on for the step to run; `not FLAG`: off.")
    timeout: float | None = option(None, "Seconds after which the step is killed.", gt=0)

    @property
    def words(self) -> tuple[str, ...]:
        """The command and its arguments; raises ValueError if a quote is not closed."""
        words = shlex.split(self.run)
        return tuple(words[1:] if words[:1] == ["ragwright"] else words)

    def wanted(self, flags: Mapping[str, bool]) -> bool:
        """True if the flags allow the step to run."""
        name = self.when.removeprefix("not ").strip()
        return not name or flags[name] != self.when.startswith("not ")


@dataclass(frozen=True, slots=True)
class JobNotices:
    """Addresses that get notices of runs of a job."""

    failure: tuple[str, ...] = option(
        (), "Apprise addresses that get a notice of a failed run; secrets only as ${VARIABLE}."
    )
    success: tuple[str, ...] = option(
        (), "Apprise addresses that get a notice of a successful run; secrets only as ${VARIABLE}."
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address once, in the order of the file."""
        return tuple(dict.fromkeys((*self.failure, *self.success)))


@dataclass(frozen=True, slots=True)
class JobOptions:
    """A job: steps in order, their schedule, retries and notices."""

    steps: tuple[JobStep, ...] = option(
        (), "Command lines, or mappings of `run`, `when` and `timeout`, in order."
    )
    flags: Mapping[str, bool] = option(
        dict, "Flags that steps depend on, and whether each is on by default."
    )
    schedule: str = option(
        "", "Cron expression of five fields, or @daily and the like; empty: only by hand."
    )
    timezone: str = option(
        "UTC", "Time zone of the schedule and of displayed times, such as Europe/Paris."
    )
    retries: int = option(0, "How often a run is retried, from the failed step on.", ge=0)
    retry_wait: float = option(60.0, "Seconds before a retry.", ge=0)
    timeout: float | None = option(
        None, "Seconds for the whole run, including retries and waits; then it is killed.", gt=0
    )
    notify: JobNotices = field(default_factory=JobNotices)


@dataclass(frozen=True, slots=True)
class ProjectJob:
    """A job of a project.

    Attributes:
        name: Its key under ``jobs``.
        options: Its settings.
        placed: Where each key was read.
    """

    name: str
    options: JobOptions
    placed: Placed

    def where(self, *path: str) -> str:
        """``file:line`` of a key, or of the nearest one around it."""
        return self.placed.where("jobs", self.name, *path)

    def timetable(self) -> Schedule:
        """The times of its schedule, if it has one.

        Raises:
            ConfigError: The expression is wrong, or no date matches it.
        """
        return Schedule(self.options.schedule, self.options.timezone, self.where("schedule"))

    def flags(self, given: Sequence[str] = ()) -> dict[str, bool]:
        """Every flag's value; ``given`` holds NAME (on) or NAME=true, NAME=false.

        Raises:
            ConfigError: The flag is unknown, or the value is not true or false.
        """
        flags = dict(self.options.flags)
        for text in given:
            name, sign, value = text.partition("=")
            if name not in flags:
                raise ConfigError(
                    f"the job {self.name!r} has no flag {name!r}",
                    where="--flag",
                    hint=suggest_name(name, flags) if flags else "it has no flags",
                )
            if sign and value not in ("true", "false"):
                raise ConfigError(
                    f"{text!r} must be true or false", where="--flag", hint=f"write {name}=false"
                )
            flags[name] = value != "false"
        return flags


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def read_jobs(value: Any, placed: Placed) -> dict[str, ProjectJob]:
    """The section ``jobs``: name -> job.

    Cron expressions, command lines and kinds of addresses are checked by ``job_faults``, so that a
    project with jobs opens without it.

    Raises:
        ConfigError: A key, a step, a flag, a time zone or an address is wrong, with file and line.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(
            "jobs must be a mapping from the name of a job to its keys", where=placed.where("jobs")
        )
    return {name: _job(name, entry, placed) for name, entry in value.items()}


def _job(name: str, entry: Any, placed: Placed) -> ProjectJob:
    path = ("jobs", name)
    if not _NAME.fullmatch(name) or name in ("True", "False"):
        raise ConfigError(
            f"{name!r} is not a valid job name",
            where=placed.where(*path),
            hint="use letters, digits, - and _; YAML reads on, off, yes and no as true and false: "
            "put these in quotes",
        )
    if isinstance(entry, dict) and isinstance(entry.get("steps"), list | str):
        steps = entry["steps"] if isinstance(entry["steps"], list) else [entry["steps"]]
        entry = {**entry, "steps": [{"run": s} if isinstance(s, str) else s for s in steps]}
    options = build_options(JobOptions, entry, placed, path)
    job = ProjectJob(name, options, placed)
    for what, key, hint in _faults(job):
        raise ConfigError(what, where=job.where(*key), hint=hint)
    return job


def _faults(job: ProjectJob) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Faults of a job: sentence, key path, what to do."""
    options = job.options
    if not options.steps:
        yield f"the job {job.name!r} has no steps", (), "write: steps: [ingest]"
    for at, step in enumerate(options.steps):
        yield from _step_faults(step, options.flags, ("steps", str(at)))
    try:
        ZoneInfo(options.timezone)
    except (ValueError, OSError, LookupError):  # ZoneInfoNotFoundError is a KeyError
        yield (
            f"unknown time zone {options.timezone!r}",
            ("timezone",),
            "write it as Europe/Paris; if no zone is found at all: pip install tzdata",
        )
    for kind in ("failure", "success"):
        for at, address in enumerate(getattr(options.notify, kind)):
            for what, hint in notice_address_faults(address):
                yield what, ("notify", kind, str(at)), hint


def _step_faults(
    step: JobStep, flags: Mapping[str, bool], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    try:
        words = step.words
    except ValueError as error:
        yield f"the step {step.run!r} cannot be read: {error}", path, "close the quote"
        return
    if not words:
        yield "a step is empty", path, "write a command, as: records refresh"
    elif words[0] == "job" and words[1:2] != ("step",):
        yield "a step cannot be a job", path, "list the steps of that job here"
    name = step.when.removeprefix("not ").strip()
    if name and name not in flags:
        known = suggest_name(name, flags) if flags else f"declare it: flags: {{{name}: false}}"
        yield f"unknown flag in `when`: {name!r}", (*path, "when"), known


JOBS = NamedOptions(JobOptions, read_jobs)
"""The section ``jobs`` of a project file."""


def project_jobs(settings: Settings) -> Mapping[str, ProjectJob]:
    """Return the jobs of a project by name."""
    jobs: Mapping[str, ProjectJob] = settings.section("jobs")
    return jobs


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
            latest, at = None, self.next(start)
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
    if text in names:
        return names.index(text)
    return int(text) if text.isdigit() else -1
