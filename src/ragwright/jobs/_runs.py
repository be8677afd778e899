"""One run of a job: steps in order, retries, history and notices."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

from ..core import JobError, RagwrightError, StoreError, load_addition
from ..ledger import Erasures, FileLock, WorkLock
from ..project import Project, ProjectFolder
from ._history import (
    CUT_OFF,
    FORGOTTEN,
    OWED,
    JobHistory,
    JobRun,
    JobState,
    Notices,
    NoticeSent,
    NoticeText,
    StepRun,
    Trigger,
    mask_address,
    printable,
)
from ._options import JobStep, ProjectJob

PROGRAM = (sys.executable, "-P", "-m", "ragwright")
"""This program; -P: a file of the project must not shadow an installed module."""

FINAL: Mapping[int, JobState] = {100: "gate failed", 101: "not trusted"}
"""Exit codes that are results: used as the job's own, and not retried."""

_USAGE = 2
_ERASING = 3600.0
"""Most seconds to wait for an erasure before the output of a step is stored."""
_TELL = 300.0
"""Most seconds to wait for another run of the same job whose notices are being sent."""

_TAIL = 15


class Clock:
    """Time and waiting; replaceable in tests."""

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the duration or the event; returns True if the event was set."""
        return event.wait(min(seconds, threading.TIMEOUT_MAX))

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class RunListener:
    """Listeners to a run in progress; their errors do not affect the run.

    Attributes:
        event: Gets a sentence per event.
        line: Gets every line that a step prints.
    """

    event: Callable[[str], None] = lambda _: None
    line: Callable[[str], None] = lambda _: None

    def say(self, text: str) -> None:
        """Pass a sentence on."""
        with suppress(Exception):  # a log that cannot be written must not end a job
            self.event(text)

    def hear(self, line: str) -> None:
        """Pass a line of a step on."""
        with suppress(Exception):
            self.line(line)


class JobRunner:
    """Runs jobs of a project, one run of each at a time."""

    def __init__(
        self,
        project: ProjectFolder,
        notices: Notices | None = None,
        clock: Clock | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self._project = project
        self._program = program
        self.notices = notices or Notices()
        self.clock = clock or Clock()
        self.history = JobHistory(project.ledger)
        self._work = WorkLock(project.data / "work")
        self._erasures = Erasures(project.data / "work" / "erasures")

    def take(self, job: ProjectJob, trigger: Trigger) -> FileLock | None:
        """Take the job's lock; None if it is already running (see :meth:`taken_by`)."""
        lock = self.lock(job.name, trigger)
        return lock if lock.acquire() else None

    def taken_by(self, job: ProjectJob) -> str:
        """Return which process runs a job and since when, as a sentence; empty if none does."""
        held = self.lock(job.name).holder()
        if held is None:
            return ""
        if not held.pid:
            return f"the job {job.name!r} is running already"
        since = write_time(held.since, job.options.timezone)
        return (
            f"the job {job.name!r} is running already: {held.what}, "
            f"by process {held.pid} on {held.host}, since {since}"
            f"{'' if held.alive else '; that process has ended, but one of its steps still runs'}"
        )

    def runs(self, job: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; a run without an end whose lock is free was interrupted."""
        return [self._seen(run) for run in self.history.runs(job, limit)]

    def start(
        self,
        job: ProjectJob,
        trigger: Trigger,
        due: float | None = None,
        flags: Mapping[str, bool] | None = None,
    ) -> JobRun:
        """The start of a run now; it is not stored yet."""
        flags = job.options.flags if flags is None else flags
        return JobRun(job.name, trigger, self.clock.now(), due, flags, job.options.timezone)

    def end(self, job: ProjectJob, run: JobRun, state: JobState, reason: str) -> JobRun:
        """Store the result of a run, with the notices that it needs."""
        at = None if state == "cut off" else self.clock.now()
        run = replace(run, ended=at, state=state, reason=reason, notices=_owed(job, state))
        self.history.end(run)
        return run

    def settle(self, job: ProjectJob) -> list[JobRun]:
        """Close the interrupted runs of a job; only for the holder of its lock.

        Returns the runs that need a notice, and the interrupted ones.
        """
        return [
            self.end(job, run, "cut off", CUT_OFF) if run.state == "running" else run
            for run in self.history.open(job.name)
        ]

    def run(
        self,
        job: ProjectJob,
        lock: FileLock,
        start: JobRun,
        listener: RunListener,
        stop: threading.Event,
    ) -> JobRun:
        """Run a job whose lock is held; releases the lock.

        Raises:
            StoreError: The history cannot be written; failure notices are sent.
        """
        try:
            run = self._run(job, lock, start, listener, stop)
            self.tell(job, run, listener)
            self.history.prune(job.name)
            return self.history.run(run.id)
        except StoreError as error:
            why = f"the history of jobs cannot be used: {error.what}"
            failed = replace(start, ended=self.clock.now(), state="failed", reason=why)
            self.tell(job, replace(failed, notices=_owed(job, "failed")), listener)
            raise

    def _run(
        self,
        job: ProjectJob,
        lock: FileLock,
        start: JobRun,
        listener: RunListener,
        stop: threading.Event,
    ) -> JobRun:
        with lock:
            for left in self.settle(job):
                if left.state == "cut off":
                    listener.say(f"run {left.id} was cut off")
                self.tell(job, left, listener, wait=0.0)
            run = replace(start, id=self.history.begin(start))
            lock.note_item(run.id)
            listener.say(f"started ({run.trigger})")
            try:
                state, reason = self._steps(job, run, lock, listener, stop)
            except KeyboardInterrupt:
                self.end(job, run, "stopped", _STOPPED)
                raise
            except OSError as error:  # no process could be started
                state, reason = "failed", f"the system refuses: {error.strerror or error}"
            run = self.end(job, run, state, reason)
        listener.say(f"{_ended(run)} after {_seconds(run)}")
        return run

    def _steps(
        self,
        job: ProjectJob,
        run: JobRun,
        lock: FileLock,
        listener: RunListener,
        stop: threading.Event,
    ) -> tuple[JobState, str]:
        """Run all steps that flags allow; a retry starts from the failed step."""
        options = job.options
        deadline = time.monotonic() + (math.inf if options.timeout is None else options.timeout)
        addresses = options.notify.addresses
        at, attempt = 0, 1
        while at < len(options.steps):
            step, left = options.steps[at], deadline - time.monotonic()
            place = StepRun(at + 1, attempt, step.run, self.clock.now(), state="skipped")
            if not step.wanted(run.flags):
                self.history.step(run.id, place)
                at += 1
                continue
            if left <= 0:
                return "timed out", f"no time was left for step {at + 1} ({step.run})"
            erased = self._erasures.position
            end = run_step(
                (*self._program, *step.words),
                self._project.root,
                stop,
                seconds=left if step.timeout is None else min(left, step.timeout),
                held=lock.share(),
                line=listener.hear,
                clean=lambda text: self.notices.clean(text, addresses),
            )
            with self._work.working("job", wait=_ERASING):  # nobody forgets what is being stored
                printed = end.output if self._erasures.position == erased else FORGOTTEN
                ended = replace(place, seconds=end.seconds, code=end.code, state=end.state)
                self.history.step(run.id, replace(ended, output=printed))
            if end.state == "succeeded":
                at += 1
                continue
            state, reason = _failure(at + 1, step, end)
            left = deadline - time.monotonic()
            if left <= 0 and end.state == "timed out":
                return state, f"the job took longer than {options.timeout:g} s, in step {at + 1}"
            # a retry cannot help after a stop, a result, or a wrong command line
            final = end.state == "stopped" or end.code in (*FINAL, _USAGE)
            if final or attempt > options.retries:
                return state, reason
            if left <= options.retry_wait:
                return state, f"{reason}; no time was left for a retry"
            attempt += 1
            listener.say(f"{reason}; retry in {options.retry_wait:g} s")
            if self.clock.wait(stop, options.retry_wait):
                return "stopped", _STOPPED
        return "succeeded", ""

    def tell(
        self, job: ProjectJob, run: JobRun, listener: RunListener, wait: float = _TELL
    ) -> None:
        """Send the notices due for a run; failures are stored too.

        One process at a time, so that none is sent twice. Notices left by a killed process are sent
        at the next check of the job.
        """
        lock = self.lock(f"{job.name}.notices", "notices", wait=wait)
        if not run.notices or not lock.acquire():
            return
        with lock:
            run = self.history.run(run.id) if run.id else run
            text = notice_text(job, run, self._project, self.clock.now())
            for address in _addresses(job, run.state):
                owed = NoticeSent(mask_address(address), False, OWED)
                if owed not in run.notices:
                    continue
                sent, at = self.notices.send(address, text), run.notices.index(owed)
                if not sent.sent:
                    listener.say(f"a notice to {sent.address} was not sent: {sent.reason}")
                run = replace(run, notices=(*run.notices[:at], sent, *run.notices[at + 1 :]))
                if run.id:
                    self.history.end(run)

    def _seen(self, run: JobRun) -> JobRun:
        if run.state != "running":
            return run
        held = self.lock(run.job).holder()
        # a new holder has not written its run number yet
        if held is not None and held.number in (None, run.id):
            return run
        return replace(run, state="cut off", reason=CUT_OFF)

    def lock(self, job: str, what: str = "", wait: float = 0.0) -> FileLock:
        """The lock of a job, of its notices or of the scheduler; not taken yet."""
        path = self._project.data / "jobs" / f"{job}.lock"
        return FileLock(path, what, wait=wait, error=JobError, clock=self.clock.now)


_STOPPED = "stopped by hand"


def _owed(job: ProjectJob, state: JobState) -> tuple[NoticeSent, ...]:
    """The notices that a run with this result needs, not sent yet."""
    return tuple(NoticeSent(mask_address(to), False, OWED) for to in _addresses(job, state))


def _addresses(job: ProjectJob, state: JobState) -> tuple[str, ...]:
    notify = job.options.notify
    if state in ("stopped", "skipped"):
        return ()
    return notify.success if state == "succeeded" else notify.failure


def write_time(at: float, timezone: str) -> str:
    """Write a moment in a time zone as text."""
    return datetime.fromtimestamp(at, ZoneInfo(timezone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")


def next_run(job: ProjectJob, now: float) -> float | None:
    """Return when a job is due next; None if it has no schedule."""
    return job.timetable().next(now) if job.options.schedule else None


def notice_text(job: ProjectJob, run: JobRun, project: ProjectFolder, now: float) -> NoticeText:
    """Write the notice of a run."""
    root = project.root.resolve()
    lines = [f"job      {job.name}", f"project  {root.name} ({root})", *run_lines(run)]
    if (due := next_run(job, now)) is not None:
        lines += ["", f"next run {write_time(due, job.options.timezone)}"]
    subject = f"ragwright: {job.name} {run.state} ({root.name})"
    return NoticeText(subject, "\n".join(lines), run.state == "succeeded")


def run_lines(run: JobRun) -> list[str]:
    """Write a run as text: result, times, steps, last lines of a failed step."""
    lines = [
        f"result   {_ended(run)}",
        f"trigger  {run.trigger}",
        f"started  {write_time(run.started, run.timezone)}",
        f"took     {_seconds(run)}",
    ]
    if run.attempts > 1:
        lines.append(f"attempts {run.attempts}")
    if run.steps:
        lines += ["", "steps"]
        lines += [f"  {s.step}. {s.line}: {_step_text(s)}" for s in run.steps]
    failed = next((s for s in reversed(run.steps) if s.state not in ("succeeded", "skipped")), None)
    if failed is not None and run.state != "succeeded" and failed.output:
        lines += ["", f"last lines of step {failed.step}"]
        lines += [f"  {line}" for line in failed.output.splitlines()[-_TAIL:]]
    return lines


def _failure(number: int, step: JobStep, end: StepRun) -> tuple[JobState, str]:
    name = f"step {number} ({step.run})"
    if end.state == "stopped":
        return "stopped", f"{_STOPPED} in {name}"
    if end.state == "timed out":
        return "timed out", f"{name} took longer than its limit"
    code = end.code or 0
    if code in FINAL:
        return FINAL[code], f"{name} ended with exit code {code}"
    ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return "failed", f"{name} {ending}"


def _ended(run: JobRun) -> str:
    return f"{run.state}: {run.reason}" if run.reason else run.state


def _seconds(run: JobRun) -> str:
    return "unknown" if run.ended is None else f"{run.ended - run.started:.1f} s"


def _step_text(step: StepRun) -> str:
    if step.state == "skipped":
        return "skipped by its flag"
    code = f", exit code {step.code}" if step.code else ""
    return f"{step.state}{code}, {step.seconds:.1f} s"


_LINES, _WIDTH = 40, 500
_GRACE = 5.0
_LOOK = 0.1


def run_step(
    words: Sequence[str],
    folder: Path,
    stop: threading.Event,
    *,
    seconds: float = math.inf,
    held: int = -1,
    line: Callable[[str], None] = lambda _: None,
    clean: Callable[[str], str] = str,
) -> StepRun:
    """Run a process to its end, its time limit, or ``stop``; its child processes end with it.

    It leads its own group: Ctrl-C at the terminal reaches only this program, which then decides.

    Args:
        words: The program, its command and the arguments.
        folder: Working folder.
        stop: If set by another thread, ends the process.
        seconds: Time limit.
        held: Open file of the lock that the process also holds; -1 for none.
        line: Gets every line that the process prints.
        clean: Takes secrets out of a line.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        list(words),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(held,) if held >= 0 else (),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    output = process.stdout
    assert output is not None
    kept: deque[str] = deque(maxlen=_LINES)
    reader = threading.Thread(target=_read, args=(output, kept, line, clean), daemon=True)
    reader.start()
    try:
        state = _wait(process, started + seconds, stop)
    except BaseException:
        _end(process, 1.0)
        raise
    if state is not None:
        _end(process, 1.0 if state == "stopped" else _GRACE)
    reader.join(1.0)  # processes left by a step may hold the pipe
    if not reader.is_alive():
        output.close()
    took, code = round(time.monotonic() - started, 3), process.returncode
    ended: JobState = state or ("failed" if code else "succeeded")
    shown = None if state else code
    printed = "\n".join(kept)
    return StepRun(1, 1, " ".join(words), time.time() - took, took, shown, ended, printed)


def _wait(process: subprocess.Popen[bytes], until: float, stop: threading.Event) -> JobState | None:
    """Wait for the end; returns why the process must be killed, None if it ended by itself."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK, until - time.monotonic())))
            return None
        if stop.is_set():
            return "stopped"
        if time.monotonic() >= until:
            return "timed out"


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End a process and its group: first by a signal, then by force."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(
    output: IO[bytes], kept: deque[str], line: Callable[[str], None], clean: Callable[[str], str]
) -> None:
    with suppress(ValueError, OSError):  # closed under us
        while printed := output.readline(65536):
            text = printed.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
            text = clean(printable(text))
            kept.append(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…")
            line(text)


def run_added_step(name: str, arguments: Sequence[str], folder: Path) -> int:
    """Run a step on a project; its exit code.

    A step is a function of the opened :class:`Project` and its arguments, a tuple of texts. It
    returns an exit code, or None for success, and prints what the history of jobs should show.

    Raises:
        PluginError: The step does not exist, or cannot be imported.
        JobError: It fails, or returns something that is not an exit code.
    """
    step = load_addition("steps", name, where=f"job step {name}")
    with Project.open(folder) as project:
        try:
            code = step(project, tuple(arguments))
        except RagwrightError:
            raise
        except Exception as error:
            raise JobError(
                f"the step {name!r} failed: {type(error).__name__}: {error}",
                where=f"job step {name}",
            ) from error
    if code is None:
        return 0
    if not isinstance(code, int) or not 0 <= code <= 255:
        raise JobError(
            f"the step {name!r} returned {code!r:.80}, not an exit code",
            where=f"job step {name}",
            hint="return None, or a number from 0 to 255",
        )
    return code
