"""Jobs as declared in the project file, and their validation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    catch_up_within: float | None = option(
        None,
        "Longest delay of a missed run, in seconds; 0: skip missed runs, null: no limit.",
        ge=0,
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
        places: Key path below the job, joined by dots -> ``file:line``.
    """

    name: str
    options: JobOptions
    places: Mapping[str, str] = field(default_factory=dict)

    def where(self, *path: str) -> str:
        """``file:line`` of a key, or of the nearest one around it."""
        for length in range(len(path), -1, -1):
            if (place := self.places.get(".".join(path[:length]))) is not None:
                return place
        return ""

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
            if sign and value.lower() not in _TRUTH:
                raise ConfigError(
                    f"{text!r} must be true or false", where="--flag", hint=f"write {name}=false"
                )
            flags[name] = _TRUTH[value.lower()] if sign else True
        return flags


_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_TRUTH |= {"false": False, "no": False, "off": False, "0": False}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

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
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid job name",
            where=placed.where(*path),
            hint="use letters, digits, - and _",
        )
    if name in {"True", "False"}:
        raise ConfigError(
            f"YAML reads the name of this job as {name.lower()}, not as text",
            where=placed.where(*path),
            hint="put the name in quotes: YAML reads on, off, yes, no, true and false as booleans",
        )
    if isinstance(entry, dict) and isinstance(entry.get("steps"), list | str):
        steps = entry["steps"] if isinstance(entry["steps"], list) else [entry["steps"]]
        entry = {**entry, "steps": [{"run": s} if isinstance(s, str) else s for s in steps]}
    options = build_options(JobOptions, entry, placed, path)
    over = {key for key in (*placed.lines, *placed.overrides) if key[:2] == path}
    places = {".".join(key[2:]): placed.where(*key) for key in over}
    job = ProjectJob(name, options, {"": placed.where(*path), **places})
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
    if options.schedule and len(options.schedule.split()) != 5 and options.schedule[0] != "@":
        yield (
            f"the schedule {options.schedule!r} has {len(options.schedule.split())} fields, not 5",
            ("schedule",),
            "minute hour day-of-month month day-of-week, as: 30 7 * * mon-fri",
        )
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
