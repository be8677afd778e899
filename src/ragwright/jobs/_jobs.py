"""The jobs of a project: list, check, run by hand, serve, history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from ..core import (
    ConfigError,
    JobError,
    MissingExtraError,
    RagwrightError,
    count_noun,
    suggest_name,
)
from ..ledger import FileLock, LockHolder
from ..project import ProjectFolder, load_settings
from ._history import JobRun, Notices, Trigger, mask_address
from ._options import ProjectJob, project_jobs
from ._runs import Clock, JobRunner, RunListener, next_run, write_time

CheckLine: TypeAlias = Callable[[Sequence[str]], str]
"""Returns the fault of a ragwright command line without running it; empty if there is none."""

JobFinding: TypeAlias = tuple[Literal["ok", "fault"], str, str]
"""State, sentence, hint."""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job, when it runs next (seconds since 1970), and its newest run."""

    job: ProjectJob
    next_run: float | None
    last: JobRun | None


class Jobs:
    """The jobs of a project folder.

    Raises:
        ConfigError: There is no project, or its file is wrong.
    """

    def __init__(
        self,
        root: Path,
        check_line: CheckLine | None = None,
        *,
        notices: Notices | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._project = ProjectFolder(root).require()
        self._check_line = check_line
        self._notices = notices or Notices()
        self._clock = clock or Clock()
        self._runner = JobRunner(self._project, self._notices, self._clock)
        self.planned = project_jobs(load_settings(self._project.file))

    def job(self, name: str) -> ProjectJob:
        """Find a job by its name, and check it.

        Raises:
            JobError: There is none; with the nearest name.
            ConfigError: Its schedule, a step or an address is wrong, with file and line.
        """
        self.require()
        if name not in self.planned:
            raise self._unknown_error(name)
        job = self.planned[name]
        for error in job_faults(job, self._check_line, self._notices):
            raise error
        return job

    def require(self) -> None:
        """Refuse a project without jobs.

        Raises:
            JobError: There are none.
        """
        if not self.planned:
            raise JobError(
                "this project has no jobs",
                where=str(self._project.file),
                hint="write for example:  jobs: {nightly: {steps: [ingest], schedule: '@daily'}}",
            )

    def run(
        self,
        name: str,
        flags: Sequence[str] = (),
        listener: RunListener | None = None,
        *,
        wait: bool = False,
    ) -> JobRun:
        """Run a job by hand.

        Raises:
            JobError: The job does not exist, or it is running already (unless ``wait``).
            ConfigError: Its declaration is wrong, or a flag is unknown.
        """
        job, hears = self.job(name), listener or RunListener()
        start = self._runner.start(job, "by hand", flags=job.flags(flags))
        waiting = False
        while (lock := self._runner.take(job, "by hand")) is None:
            busy = self._runner.taken_by(job)
            if busy and not wait:
                raise JobError(busy, hint="wait for it to end, or add --wait")
            if busy and not waiting:
                hears.say(f"{busy}; waiting for it")
                waiting = True
            self._clock.sleep(0.5)
        return self._runner.run(job, lock, start, hears, threading.Event())

    def history(self, name: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        Raises:
            JobError: The job is unknown, also in the history.
        """
        runs = self._runner.runs(name, limit)
        if name and not runs and name not in self.planned:
            raise self._unknown_error(name)
        return runs

    def _unknown_error(self, name: str) -> JobError:
        hint = suggest_name(name, self.planned) if self.planned else "this project has no jobs"
        return JobError(f"unknown job {name!r}", where=str(self._project.file), hint=hint)

    def listed(self) -> list[ListedJob]:
        """List every job, with its next run and the result of its last one.

        Raises:
            JobError: There are none.
            ConfigError: A schedule is wrong.
        """
        self.require()
        now = self._clock.now()
        return [
            ListedJob(job, next_run(job, now), next(iter(self._runner.runs(name, 1)), None))
            for name, job in self.planned.items()
        ]

    def server(self, say: Callable[[str], None]) -> tuple[JobServer, FileLock]:
        """Create the project's scheduler, and the lock that makes it the only one.

        Raises:
            JobError: No job has a schedule, or another process serves them.
            ConfigError: The declaration of a job is wrong, with file and line.
        """
        self.require()
        for name in self.planned:
            self.job(name)
        if not any(job.options.schedule for job in self.planned.values()):
            raise JobError(
                "no job has a schedule",
                where=str(self._project.file),
                hint="write for example:  schedule: '30 7 * * mon-fri'",
            )
        lock = self._runner.lock(".serve", "job serve")
        if not lock.acquire():
            held = lock.holder() or LockHolder()
            since = f" since {write_time(held.since, 'UTC')}" if held.pid else ""
            raise JobError(
                f"the jobs are already served by process {held.pid or '?'} on "
                f"{held.host or '?'}{since}",
                where=str(self._project.root),
                hint="end that process, or let it serve the jobs",
            )
        return JobServer(self._runner, self.planned, say), lock


def job_faults(
    job: ProjectJob, check_line: CheckLine | None, notices: Notices
) -> Iterator[ConfigError]:
    """Find the faults of a job beyond its YAML: schedule, command lines, addresses.

    An address with a variable that is not set is left to ``doctor`` and to the sending.

    Raises:
        MissingExtraError: The extra that checks addresses is not installed.
    """
    options = job.options
    if options.schedule:
        try:
            job.timetable()
        except ConfigError as error:
            yield error
    if check_line is not None:
        for at, step in enumerate(options.steps):
            if problem := check_line(step.words):
                yield ConfigError(
                    f"the step {step.run!r} cannot run: {problem}",
                    where=job.where("steps", str(at)),
                    hint="run it by hand: ragwright " + step.run.removeprefix("ragwright "),
                )
    for kind in ("failure", "success"):
        for at, address in enumerate(getattr(options.notify, kind)):
            if not notices.unset(address) and (problem := notices.problem(address)):
                yield ConfigError(
                    f"{mask_address(address)}: {problem}",
                    where=job.where("notify", kind, str(at)),
                    hint="use an address of Apprise: mailto://, json://, …",
                )


def job_findings(
    jobs: Mapping[str, ProjectJob], check_line: CheckLine | None
) -> Iterator[JobFinding]:
    """Check jobs for `doctor`: faults, next runs, addresses with a variable that is not set.

    Nothing is sent.
    """
    notices, clock = Notices(), Clock()
    for job in jobs.values():
        try:
            faults = list(job_faults(job, check_line, notices))
            for error in faults:
                yield "fault", f"{job.name}: {error.what} ({error.where})", error.hint or ""
            if not faults:
                yield "ok", f"{job.name}: {_planned(job, clock)}", ""
                for address in job.options.notify.addresses:
                    missing = notices.unset(address)
                    notice = f"{job.name}: notice to {mask_address(address)}"
                    fault = f"{notice}: the environment variable {missing} is not set"
                    hint = f"export {missing}=…"
                    yield ("fault", fault, hint) if missing else ("ok", notice, "")
        except MissingExtraError as error:
            yield "fault", f"{job.name}: {error.what}", error.hint or ""


def _planned(job: ProjectJob, clock: Clock) -> str:
    options = job.options
    steps = count_noun(len(options.steps), "step")
    at = next_run(job, clock.now())
    if at is None:
        return f"{steps}, by hand only"
    return f"{steps}, next run {write_time(at, options.timezone)} while `job serve` is running"


IN_TIME = 60.0
"""Seconds within which a start is still on time."""

_AHEAD = 3600.0
"""A history that is further ahead than this was written with a wrong clock."""

_LEAVE = 10.0
"""Seconds to wait when ending at once; a notice that hangs is abandoned."""

_LOOK = 0.5
"""Seconds between checks of clock and signals."""

RunJob = Callable[[ProjectJob, FileLock, JobRun, RunListener, threading.Event], JobRun]
"""Runs a job whose lock is held: :meth:`JobRunner.run`."""


class JobServer:
    """Starts jobs by their schedules until it is stopped."""

    def __init__(
        self,
        runner: JobRunner,
        jobs: Mapping[str, ProjectJob],
        say: Callable[[str], None],
        *,
        run: RunJob | None = None,
        look: float = _LOOK,
    ) -> None:
        self._runner = runner
        self._say = say
        self._run: RunJob = run or runner.run
        self._look = look
        self._jobs = {name: job for name, job in jobs.items() if job.options.schedule}
        self._answered: dict[str, float] = {}  # name -> the time up to which it is handled
        self._running: list[tuple[str, threading.Thread]] = []
        self._signals = 0
        self._stop = threading.Event()

    def signal(self) -> None:
        """Stop after the running jobs; called again, stop them too. Safe in a signal handler."""
        self._signals += 1  # so it must not take a lock

    def serve(self) -> None:
        """Start what is due until :meth:`signal`, then wait for what runs."""
        clock = self._runner.clock
        while not self._signals:
            clock.sleep(self.tick())
        names = ", ".join(sorted(self._alive()))
        self._print_line(f"ending{f' after {names}; again to end at once' if names else ''}")
        while self._alive() and self._signals < 2:
            clock.sleep(self._look)
        if self._alive():
            self._print_line("ending at once")
            self._stop.set()
            for _, thread in self._running:
                thread.join(_LEAVE)

    def tick(self) -> float:
        """Start due jobs; returns seconds until the next check."""
        now = self._runner.clock.now()
        # times that are far ahead were noted under a wrong clock
        self._answered = {k: at if at <= now + _AHEAD else now for k, at in self._answered.items()}
        for name, job in self._jobs.items():
            try:
                if name not in self._answered:
                    self._begin(job, now)
                if self._due(name) <= now:
                    self._answer(job, now)
            except (RagwrightError, OSError) as error:  # the disk is full, the history locked
                reason = str(error).partition("\n")[0]
                self._event(job, f"could not be started: {reason}")
        left = min((self._due(name) - now for name in self._answered), default=self._look)
        return max(0.0, min(left, self._look))

    def _begin(self, job: ProjectJob, now: float) -> None:
        """Learn up to which time a job is handled; report its interrupted runs."""
        history, options = self._runner.history, job.options
        since = history.since(job.name, f"{options.schedule} {options.timezone}", now)
        answered = max(since, history.answered(job.name) or since)
        self._answered[job.name] = answered if answered <= now + _AHEAD else now
        if (lock := self._runner.take(job, "schedule")) is not None:  # else it runs elsewhere
            with lock:
                left = self._runner.settle(job)
            for run in left:
                if run.state == "cut off":
                    self._event(job, f"run {run.id} was cut off")
                self._tell(job, run)
        self._event(job, f"next run {write_time(self._due(job.name), options.timezone)}")

    def _due(self, name: str) -> float:
        return self._jobs[name].timetable().next(self._answered[name])

    def _alive(self) -> set[str]:
        self._running = [running for running in self._running if running[1].is_alive()]
        return {name for name, _ in self._running}

    def _answer(self, job: ProjectJob, now: float) -> None:
        """Handle the last due time: a run, a late run, or a row that says why there is none."""
        answered = self._answered[job.name]
        due = job.timetable().latest(answered, now) or self._due(job.name)
        self._answered[job.name] = due
        trigger: Trigger = "schedule" if now - due <= IN_TIME else "catch-up"
        start = self._runner.start(job, trigger, due)
        if (lock := self._runner.take(job, trigger)) is not None:
            self._start(job, lock, start)
            return
        alone = job.name in self._alive()
        why = "the previous run has not ended" if alone else self._runner.taken_by(job)
        start = replace(start, id=self._runner.history.begin(start))
        self._runner.end(job, start, "skipped", why)
        self._event(job, f"skipped {write_time(due, job.options.timezone)}: {why}")

    def _tell(self, job: ProjectJob, run: JobRun) -> None:
        if run.notices:
            listener = RunListener(partial(self._event, job))
            work = partial(self._runner.tell, job, run, listener)
            self._spawn(f"notices of {job.name}, run {run.id}", work)

    def _start(self, job: ProjectJob, lock: FileLock, start: JobRun) -> None:
        def work() -> None:
            with lock:
                try:
                    listener = RunListener(partial(self._event, job))
                    self._run(job, lock, start, listener, self._stop)
                except Exception as error:  # an error in a thread must be reported
                    reason = error.what if isinstance(error, RagwrightError) else repr(error)
                    self._event(job, f"failed: {reason}")

        self._spawn(job.name, work)

    def _spawn(self, name: str, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, name=f"job-{name}", daemon=True)
        self._running.append((name, thread))
        thread.start()

    def _event(self, job: ProjectJob, text: str) -> None:
        now = datetime.fromtimestamp(self._runner.clock.now(), ZoneInfo(job.options.timezone))
        self._print_line(f"{now.isoformat(timespec='seconds')} {job.name}: {text}")

    def _print_line(self, line: str) -> None:
        with suppress(Exception):  # a log that cannot be written must not end the scheduler
            self._say(line)
