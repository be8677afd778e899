"""The jobs of a project: list, check, run by hand, serve, history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    StoreError,
    count_noun,
    suggest_name,
)
from ..ledger import FileLock, LockHolder
from ..project import ProjectFolder, load_settings
from ._history import JobRun, JobState, Notices, NoticeSent, NoticeText, Trigger, mask_address
from ._options import ProjectJob, project_jobs
from ._runs import (
    Clock,
    JobRunner,
    RunListener,
    RunRequest,
    list_notice_addresses,
    next_run,
    write_time,
)

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

    Args:
        root: The folder.
        check_line: Validates the command lines of steps; without it they are not checked.
        notices: Sends notices.
        clock: The time.

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
        self._stamp = self._stamped()
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

        Args:
            name: The job.
            flags: NAME, NAME=true or NAME=false.
            listener: Gets events, and the lines of the steps.
            wait: Wait if the job is already running.

        Raises:
            JobError: The job does not exist, or it is running already (unless ``wait``).
            ConfigError: Its declaration is wrong, or a flag is unknown.
        """
        job, runner, hears = self.job(name), self._runner(), listener or RunListener()
        request = RunRequest("by hand", None, job.flags(flags))
        lock = self._taken(runner, job, wait, hears)
        return runner.run(job, lock, request, hears, threading.Event())

    def history(self, name: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        Raises:
            JobError: The job is unknown, also in the history.
        """
        runs = self._runner().runs(name, limit)
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
        runner = self._runner()
        return [
            ListedJob(job, next_run(job, self._clock.now()), next(iter(runner.runs(name, 1)), None))
            for name, job in self.planned.items()
        ]

    def test_notice(self, name: str) -> list[NoticeSent]:
        """Send a test to every address of a job; returns the results.

        Raises:
            JobError: The job is unknown, or has no notice addresses.
        """
        job = self.job(name)
        addresses = job.options.notify.addresses
        if not addresses:
            raise JobError(
                f"the job {name!r} has no notice addresses",
                where=job.where("notify"),
                hint="write: notify: {failure: ['mailto://…']}",
            )
        root = self._project.root.resolve()
        text = NoticeText(
            f"ragwright: test of {name} ({root.name})",
            f"This is a test.\n\njob      {name}\nproject  {root.name} ({root})",
        )
        return [self._notices.send(address, text) for address in addresses]

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
        runner = self._runner()
        lock = runner.scheduler_lock()
        if not lock.acquire():
            held = lock.holder() or LockHolder()
            since = f" since {write_time(held.since, 'UTC')}" if held.pid else ""
            raise JobError(
                f"the jobs are already served by process {held.pid or '?'} on "
                f"{held.host or '?'}{since}",
                where=str(self._project.root),
                hint="end that process, or let it serve the jobs",
            )
        self._stamp = None  # so that the first check reads the jobs
        return JobServer(runner, self.reloaded, say), lock

    def reloaded(self) -> Mapping[str, ProjectJob] | None:
        """Read the jobs again if the project file has changed since it was last read, else None.

        Raises:
            ConfigError: The file is wrong now; it is not read again until it changes.
        """
        stamp = self._stamped()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        planned = project_jobs(load_settings(self._project.require().file))
        for job in planned.values():
            for error in job_faults(job, self._check_line, self._notices):
                raise error
        self.planned = planned
        return planned

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            stat = self._project.file.stat()
            return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            return (0, 0, 0)

    def _runner(self) -> JobRunner:
        return JobRunner(self._project, self._notices, self._clock)

    def _taken(
        self, runner: JobRunner, job: ProjectJob, wait: bool, listener: RunListener
    ) -> FileLock:
        waiting = False
        while (lock := runner.take(job, "by hand")) is None:
            busy = runner.taken_by(job)
            if not busy:  # it has just ended
                continue
            if not wait:
                raise JobError(busy, hint="wait for it to end, or add --wait")
            if not waiting:
                listener.say(f"{busy}; waiting for it")
                waiting = True
            self._clock.sleep(0.5)
        return lock


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

    Nothing is sent; ``job test-notice`` shows whether a notice arrives.
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
"""Seconds between checks of clock, signals and settings."""

Load = Callable[[], Mapping[str, ProjectJob] | None]
"""The jobs if the project file has changed since the last call, else None."""


RunJob = Callable[[ProjectJob, FileLock, RunRequest, RunListener, threading.Event], JobRun]
"""Runs a job whose lock is held: :meth:`JobRunner.run`."""


class JobServer:
    """Starts jobs by their schedules until it is stopped.

    Args:
        runner: Runs them.
        load: Reads the jobs again if their file has changed.
        say: Gets one line per event.
        run: Runs a job; the runner if None.
        look: Most seconds between two checks.
    """

    def __init__(
        self,
        runner: JobRunner,
        load: Load,
        say: Callable[[str], None],
        *,
        run: RunJob | None = None,
        look: float = _LOOK,
    ) -> None:
        self._runner = runner
        self._load = load
        self._say = say
        self._run: RunJob = run or runner.run
        self._look = look
        self._jobs: dict[str, ProjectJob] = {}
        self._answered: dict[str, float] = {}  # name -> the time up to which it is handled
        self._running: list[tuple[str, threading.Thread]] = []
        self._signals = 0
        self._stop = threading.Event()
        self._read: Mapping[str, ProjectJob] | None = None

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
        try:
            loaded = self._load()
            self._read = self._read if loaded is None else loaded
        except Exception as error:  # an invalid file does not stop the known jobs
            fault = " - ".join(part.strip() for part in str(error).splitlines())
            self._log(f"the project file is invalid, the jobs stay as they were: {fault}")
        self._arm()
        now = self._runner.clock.now()
        if any(at > now + _AHEAD for at in self._answered.values()):
            self._log("the clock was ahead: schedules count from now on")
            self._read, self._answered = self._jobs, {}
            self._arm()
        for name, job in self._jobs.items():
            if self._due(name) <= now:
                try:
                    self._answer(job, now)
                except (RagwrightError, OSError) as error:  # the disk is full, the history locked
                    reason = str(error).partition("\n")[0]
                    self._event(job, f"could not be started: {reason}")
        left = min((self._due(name) - now for name in self._jobs), default=self._look)
        return max(0.0, min(left, self._look))

    def _due(self, name: str) -> float:
        return self._jobs[name].timetable().next(self._answered[name])

    def _alive(self) -> set[str]:
        self._running = [running for running in self._running if running[1].is_alive()]
        return {name for name, _ in self._running}

    def _arm(self) -> None:
        """Set the timers of newly read jobs."""
        if self._read is None:
            return
        jobs = {name: job for name, job in self._read.items() if job.options.schedule}
        try:
            answered = {name: self._last_answered(job) for name, job in jobs.items()}
        except StoreError as error:  # checked again next time
            self._log(f"the history cannot be read: {error.what}")
            return
        self._read, self._jobs, self._answered = None, jobs, answered
        for name, job in jobs.items():
            self._settle(job)
            self._event(job, f"next run {write_time(self._due(name), job.options.timezone)}")
        if not jobs:
            self._log("no job has a schedule now")

    def _last_answered(self, job: ProjectJob) -> float:
        """Return the time up to which a job is handled, by the history and by this server."""
        options, history, now = job.options, self._runner.history, self._runner.clock.now()
        since = history.since(job.name, f"{options.schedule} {options.timezone}", now)
        answered = max(since, history.answered(job.name) or since)
        if answered > now + _AHEAD:
            answered = now
        old = self._answered.get(job.name)
        if old is not None and since <= old:  # started, but not stored yet
            answered = max(answered, old)
        return answered

    def _settle(self, job: ProjectJob) -> None:
        """Report interrupted runs, unless the job runs elsewhere."""
        lock = self._runner.take(job, "schedule")
        if lock is not None:
            with lock:
                left = self._runner.settle(job)
            for run in left:
                if run.state == "cut off":
                    self._event(job, f"run {run.id} was cut off")
                self._tell(job, run)

    def _answer(self, job: ProjectJob, now: float) -> None:
        """Handle the last due time: a run, a late run, or a row with the reason."""
        answered = self._answered[job.name]
        due = job.timetable().latest(answered, now) or self._due(job.name)
        self._answered[job.name] = due
        late, within = now - due, job.options.catch_up_within
        trigger: Trigger = "schedule" if late <= IN_TIME else "catch-up"
        if trigger == "catch-up" and within is not None and late > within:
            self._not_run(job, trigger, due, ("missed", f"{late / 3600:.1f} hours are too late"))
        elif (lock := self._runner.take(job, trigger)) is not None:
            self._start(job, lock, RunRequest(trigger, due, job.flags()))
        elif job.name in self._alive():
            self._not_run(job, trigger, due, ("skipped", "the previous run has not ended"))
        else:
            self._not_run(job, trigger, due, ("skipped", self._runner.taken_by(job)))

    def _not_run(
        self, job: ProjectJob, trigger: Trigger, due: float, why: tuple[JobState, str]
    ) -> None:
        state, reason = why
        zone = job.options.timezone
        start = JobRun(job.name, trigger, self._runner.clock.now(), due, timezone=zone)
        told = state == "missed" and job.options.catch_up_within != 0
        addresses = list_notice_addresses(job, state) if told else ()
        number = self._runner.history.not_run(start, state, reason, addresses)
        self._event(job, f"{state} {write_time(due, zone)}: {reason}")
        self._tell(job, self._runner.history.run(number))

    def _tell(self, job: ProjectJob, run: JobRun) -> None:
        """Send the notices due for a run, in the background."""
        if run.notices:
            listener = RunListener(partial(self._event, job))
            work = partial(self._runner.tell, job, run, listener)
            self._spawn(f"notices of {job.name}, run {run.id}", work)

    def _start(self, job: ProjectJob, lock: FileLock, request: RunRequest) -> None:
        def work() -> None:
            with lock:
                try:
                    listener = RunListener(partial(self._event, job))
                    self._run(job, lock, request, listener, self._stop)
                except Exception as error:  # an error in a thread must be reported
                    reason = error.what if isinstance(error, RagwrightError) else repr(error)
                    self._event(job, f"failed: {reason}")

        self._spawn(job.name, work)

    def _spawn(self, name: str, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, name=f"job-{name}", daemon=True)
        self._running.append((name, thread))
        thread.start()

    def _event(self, job: ProjectJob, text: str) -> None:
        self._log(f"{job.name}: {text}", job.options.timezone)

    def _log(self, text: str, timezone: str = "UTC") -> None:
        now = datetime.fromtimestamp(self._runner.clock.now(), ZoneInfo(timezone))
        self._print_line(f"{now.isoformat(timespec='seconds')} {text}")

    def _print_line(self, line: str) -> None:
        with suppress(Exception):  # a log that cannot be written must not end the scheduler
            self._say(line)
