"""The jobs of a project: list, check, run by hand, serve, history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..core import ConfigError, JobError, MissingExtraError, count_noun, suggest_name
from ..ledger import FileLock, LockHolder
from ..project import ProjectFolder, load_settings
from ._history import JobRun, NoticeSent
from ._notices import Notices, NoticeText, mask_address
from ._options import ProjectJob, project_jobs
from ._runs import Clock, JobRunner, RunListener, RunRequest, next_run, write_time
from ._schedule import Schedule
from ._server import JobServer

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


@dataclass(frozen=True, slots=True)
class JobCall:
    """Settings for running a job by hand.

    Attributes:
        flags: NAME, NAME=true or NAME=false.
        wait: Wait if the job is already running.
        event: Gets a sentence per event.
        line: Gets every line that a step prints.
    """

    flags: tuple[str, ...] = ()
    wait: bool = False
    event: Callable[[str], None] = lambda _: None
    line: Callable[[str], None] | None = None


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
            raise JobError(
                f"unknown job {name!r}",
                where=str(self._project.file),
                hint=suggest_name(name, self.planned),
            )
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

    def run(self, name: str, call: JobCall | None = None) -> JobRun:
        """Run a job by hand.

        Raises:
            JobError: The job does not exist, or it is running already (unless ``wait``).
            ConfigError: Its declaration is wrong, or a flag is unknown.
        """
        call = call or JobCall()
        job = self.job(name)
        flags = job.flags(call.flags)
        runner = self._runner()
        listener = RunListener(call.event, call.line)
        return runner.run(
            job,
            self._taken(runner, job, call.wait, listener),
            RunRequest("by hand", None, flags),
            listener,
            threading.Event(),
        )

    def history(self, name: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        Raises:
            JobError: The job is unknown, also in the history.
        """
        runs = self._runner().runs(name, limit)
        if name and not runs and name not in self.planned:
            raise JobError(
                f"unknown job {name!r}",
                where=str(self._project.file),
                hint=suggest_name(name, self.planned)
                if self.planned
                else "this project has no jobs",
            )
        return runs

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
        except OSError:
            return (0, 0, 0)
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)

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
            Schedule(options.schedule, options.timezone, job.where("schedule"))
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
