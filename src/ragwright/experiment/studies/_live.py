"""Running sweeps seen from other processes: their progress in the store, and requests to stop.

The process of a sweep stores its counters every second, and reads requests to stop. A process that
was killed stores no more counters, so its sweep does not count as running.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from ...core import Interrupted, RagwrightError, StoppedError, StoreError, current_user
from ...flow import Run
from ...project import SWEEP, Project

SweepState: TypeAlias = Literal["running", "stopping", "stopped", "complete"]

_PROGRESS = "progress"
_STOP = "stop"
_BEAT = 1.0
"""Seconds between two writes of the counters."""

_LOST = 15.0
"""Seconds without counters after which a process counts as ended."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep's process since it started.

    Attributes:
        at: When this was stored, in seconds since 1970.
        process: Process id and machine.
        trials: Trials that have ended, those of an earlier start included.
        planned: Trials of the study, with that of the current settings.
        rows: Rows that have ended, of all trials; ``of_rows`` is their number, None if it is
            unknown.
        rate: Rows per second.
        spent: Money spent by this process.
        calls: Requests sent to models; ``reused`` were answered from stored replies.
        possibly_billed: Calls that failed but may be billed.
        waiting: The model that all work waits for; empty if there is none.
        ended: The process has left the sweep.
    """

    at: float
    process: str
    trials: int
    planned: int
    rows: int = 0
    of_rows: int | None = None
    rate: float = 0.0
    spent: float = 0.0
    calls: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    possibly_billed: int = 0
    waiting: str = ""
    ended: bool = False

    @property
    def eta(self) -> float | None:
        """Seconds to the end of the sweep at the present rate, None if unknown."""
        if self.of_rows is None or self.rate <= 0:
            return None
        return max(0.0, (self.of_rows - self.rows) / self.rate)


@dataclass(frozen=True, slots=True)
class KnownSweep:
    """A stored sweep, as an entry of a list.

    Attributes:
        id: Its run.
        study: Name of the study.
        testset: Address of its testset.
        objectives: Objectives that order its trials.
        started: Local time, ``2026-11-21 14:31``.
        state: ``stopping`` if a stop was requested and it has not ended yet; ``stopped`` also if
            its process was killed.
        trials: Trials that are stored.
        progress: Counters of its last process, None if it stored none.
        asked_by: User who requested the stop; empty without a request.
    """

    id: str
    study: str
    testset: str
    objectives: tuple[str, ...]
    started: str
    state: SweepState
    trials: int
    progress: SweepProgress | None = None
    asked_by: str = ""

    @property
    def running(self) -> bool:
        """True while a process works on it."""
        return self.state in ("running", "stopping")


def list_sweeps(project: Project, now: float | None = None) -> tuple[KnownSweep, ...]:
    """Every stored sweep, the newest first.

    Args:
        project: The project.
        now: Seconds since 1970; the present time by default.
    """
    present = time.time() if now is None else now
    runs = project.runs.list(SWEEP)
    return tuple(_known_sweep(project, run, present) for run in reversed(runs))


def stop_sweep(project: Project, name: str = "", by: str = "") -> KnownSweep:
    """Ask a running sweep to stop, in whichever process it runs.

    Calls in flight end and are stored; the rest is skipped. The same command continues it.

    Args:
        project: The project.
        name: Its run, or the beginning of it; the running one if empty.
        by: Name of the requester; the user of this machine by default.

    Raises:
        StoreError: No sweep is running, or several are.
    """
    running = [
        sweep for sweep in list_sweeps(project) if sweep.running and sweep.id.startswith(name)
    ]
    if len(running) != 1:
        prefix = f" that begins with {name!r}" if name else ""
        problem = (
            f"{len(running)} sweeps are running" if running else f"no sweep{prefix} is running"
        )
        ids = ", ".join(sweep.id for sweep in running)
        raise StoreError(problem, hint=f"name one of: {ids}" if running else None)
    requester = by or current_user()
    project.runs.keep(running[0].id, _STOP, {"by": requester, "at": time.time()})
    return _known_sweep(project, project.runs.get(running[0].id), time.time())


def _known_sweep(project: Project, run: Run, now: float) -> KnownSweep:
    runs, manifest = project.runs, run.manifest
    progress = _progress_of(runs.kept(run.id, _PROGRESS))
    requester = str(runs.kept(run.id, _STOP).get("by", ""))
    alive = progress is not None and not progress.ended and now - progress.at < _LOST
    state: SweepState = "complete" if run.state == "complete" else "stopped"
    if run.state == "open" and alive:
        state = "stopping" if requester else "running"
    return KnownSweep(
        run.id,
        str(manifest.get("study", {}).get("name", "")),
        str(manifest.get("testset", "")),
        tuple(manifest.get("objectives", ())),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        state,
        len(runs.states(run.id)),
        progress,
        requester,
    )


def _progress_of(body: Mapping[str, Any]) -> SweepProgress | None:
    names = {entry.name for entry in fields(SweepProgress)}
    with suppress(TypeError):
        return SweepProgress(**{name: body[name] for name in body if name in names})
    return None


class Pulse:
    """Stores the counters of a sweep while it is open, and stops it on request.

    Args:
        project: The project of the sweep.
        run: Its run.
        planned: Trials of the study.
        ended: Returns the number of trials that have ended.
        stop: Called once with the reason for a stop, on a separate thread.
    """

    def __init__(
        self,
        project: Project,
        run: str,
        planned: int,
        ended: Callable[[], int],
        stop: Callable[[StoppedError], None],
    ) -> None:
        self._project = project
        self._run = run
        self._planned = planned
        self._ended = ended
        self._stop = stop
        self._reason: StoppedError | None = None
        self._over = threading.Event()
        self._process = f"{os.getpid()} on {socket.gethostname()}"
        self._thread = threading.Thread(target=self._beat, name="ragwright-sweep", daemon=True)

    def __enter__(self) -> Pulse:
        """Forget an earlier request to stop, and begin."""
        with suppress(RagwrightError):
            self._project.runs.keep(self._run, _STOP, {})
            self._store_progress()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Store the last counters."""
        self._over.set()
        self._thread.join()
        if self._reason is not None:
            for runner in self._project.runners:
                runner.interrupt(self._reason)  # waits for calls in flight; then work may go on
        with suppress(RagwrightError):
            self._store_progress(ended=True)

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            # The store may work again in a second; the sweep goes on without it.
            with suppress(RagwrightError):
                self._check_for_stop()
                self._store_progress()

    def _check_for_stop(self) -> None:
        requester = self._project.runs.kept(self._run, _STOP).get("by")
        if requester and self._reason is None:
            self._reason = Interrupted(
                f"{requester} asked this sweep to stop",
                hint="run the same command again to continue: rows and replies are kept",
            )
            self._stop(self._reason)
        if self._reason is not None:  # each time: the next runner may have begun since
            for runner in self._project.runners:
                runner.ask_to_stop(self._reason)

    def _store_progress(self, ended: bool = False) -> None:
        runners = self._project.runners
        counters = [runner.progress for runner in runners]
        last = max(counters, key=lambda counter: counter.began, default=None)
        waiting = None if last is None else last.waiting
        trials = self._ended()
        each = 0 if last is None else last.total or 0
        # A trial that has just ended is counted among the trials.
        finished = 0 if last is None or last.finished == each else last.finished
        progress = SweepProgress(
            at=time.time(),
            process=self._process,
            trials=trials,
            planned=self._planned,
            rows=trials * each + finished,
            of_rows=self._planned * each or None,
            rate=0.0 if last is None else round(last.rate, 3),
            spent=round(self._project.budget.spent, 9),
            calls=sum(counter.calls for counter in counters),
            reused=sum(counter.reused for counter in counters),
            prompt_tokens=sum(counter.prompt_tokens for counter in counters),
            completion_tokens=sum(counter.completion_tokens for counter in counters),
            possibly_billed=sum(counter.possibly_billed for counter in counters),
            waiting="" if waiting is None else f"{waiting.lane}, {waiting.seconds:.0f} s",
            ended=ended,
        )
        self._project.runs.keep(self._run, _PROGRESS, asdict(progress))
