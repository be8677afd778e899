"""The scheduler: starts jobs when they are due, and once, late, after missed times.

It reads from the history what has run, and keeps no state of its own. After a late start, a
suspended machine or a change of the clock it looks for the last scheduled time without a run, and
for how long ago that was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from ..core import RagwrightError, StoreError
from ..ledger import FileLock
from ._history import JobRun, JobState, RunStart, Trigger
from ._options import ProjectJob
from ._runs import JobRunner, RunListener, RunRequest, list_notice_addresses, write_time
from ._schedule import Schedule

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


@dataclass(slots=True)
class _Timer:
    """A job with a schedule, and the time up to which it is handled."""

    job: ProjectJob
    schedule: Schedule
    answered: float
    due: float


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
        self._timers: dict[str, _Timer] = {}
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
        if any(timer.answered > now + _AHEAD for timer in self._timers.values()):
            self._log("the clock was ahead: schedules count from now on")
            self._read = {name: timer.job for name, timer in self._timers.items()}
            self._timers = {}
            self._arm()
        for timer in self._timers.values():
            if timer.due <= now:
                try:
                    self._answer(timer, now)
                except (RagwrightError, OSError) as error:  # the disk is full, the history locked
                    reason = str(error).partition("\n")[0]
                    self._event(timer.job, f"could not be started: {reason}")
        left = min((timer.due - now for timer in self._timers.values()), default=self._look)
        return max(0.0, min(left, self._look))

    def _alive(self) -> set[str]:
        self._running = [running for running in self._running if running[1].is_alive()]
        return {name for name, _ in self._running}

    def _arm(self) -> None:
        """Set the timers of newly read jobs."""
        if self._read is None:
            return
        try:
            timers = {n: self._timer(j) for n, j in self._read.items() if j.options.schedule}
        except StoreError as error:  # checked again next time
            self._log(f"the history cannot be read: {error.what}")
            return
        self._read, self._timers = None, timers
        for timer in timers.values():
            self._settle(timer.job)
            self._event(timer.job, f"next run {write_time(timer.due, timer.job.options.timezone)}")
        if not timers:
            self._log("no job has a schedule now")

    def _timer(self, job: ProjectJob) -> _Timer:
        options = job.options
        schedule = Schedule(options.schedule, options.timezone, job.where("schedule"))
        now = self._runner.clock.now()
        history = self._runner.history
        since = history.since(job.name, f"{options.schedule} {options.timezone}", now)
        answered = max(since, history.answered(job.name) or since)
        if answered > now + _AHEAD:
            answered = now
        old = self._timers.get(job.name)
        if old is not None and since <= old.answered:  # started, but not stored yet
            answered = max(answered, old.answered)
        return _Timer(job, schedule, answered, schedule.next(answered))

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

    def _answer(self, timer: _Timer, now: float) -> None:
        """Handle the last due time: a run, a late run, or a row with the reason."""
        job = timer.job
        due = timer.schedule.latest(timer.answered, now) or timer.due
        timer.answered, timer.due = due, timer.schedule.next(due)
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
        start = RunStart(job.name, trigger, self._runner.clock.now(), due)
        start = replace(start, timezone=job.options.timezone)
        told = state == "missed" and job.options.catch_up_within != 0
        addresses = list_notice_addresses(job, state) if told else ()
        number = self._runner.history.not_run(start, state, reason, addresses)
        self._event(job, f"{state} {write_time(due, job.options.timezone)}: {reason}")
        self._tell(job, self._runner.history.run(number))

    def _tell(self, job: ProjectJob, run: JobRun) -> None:
        """Send the notices due for a run, in the background."""
        if run.notices:
            name = f"notices of {job.name}, run {run.id}"
            self._spawn(name, lambda: self._runner.tell(job, run, self._listener(job)))

    def _start(self, job: ProjectJob, lock: FileLock, request: RunRequest) -> None:
        def work() -> None:
            try:
                self._run(job, lock, request, self._listener(job), self._stop)
            except Exception as error:  # an error in a thread must be reported
                reason = error.what if isinstance(error, RagwrightError) else repr(error)
                self._event(job, f"failed: {reason}")
            finally:
                lock.release()

        self._spawn(job.name, work)

    def _spawn(self, name: str, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, name=f"job-{name}", daemon=True)
        self._running.append((name, thread))
        thread.start()

    def _listener(self, job: ProjectJob) -> RunListener:
        return RunListener(lambda text: self._event(job, text))

    def _event(self, job: ProjectJob, text: str) -> None:
        self._log(f"{job.name}: {text}", job.options.timezone)

    def _log(self, text: str, timezone: str = "UTC") -> None:
        now = datetime.fromtimestamp(self._runner.clock.now(), ZoneInfo(timezone))
        self._print_line(f"{now.isoformat(timespec='seconds')} {text}")

    def _print_line(self, line: str) -> None:
        with suppress(Exception):  # a log that cannot be written must not end the scheduler
            self._say(line)
