"""One step of a job: a child process with its children, its time limit, and its last lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..core import JobError, RagwrightError, load_addition
from ..project import Project
from ._history import JobState
from ._notices import printable

PROGRAM = (sys.executable, "-P", "-m", "ragwright")
"""This program; -P: a file of the project must not shadow an installed module."""

_LINES, _WIDTH = 40, 500
_GRACE = 5.0
_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a process ended: exit code (None if it was killed), state, seconds, last lines."""

    code: int | None
    state: JobState
    seconds: float
    output: str


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A process to run.

    Attributes:
        words: The program, its command and the arguments.
        folder: Working folder.
        seconds: Time limit; None for none.
        held: Open file of the lock that the process also holds; -1 for none.
        line: Gets every line that the process prints.
        clean: Takes secrets out of a line.
    """

    words: Sequence[str]
    folder: Path
    seconds: float | None = None
    held: int = -1
    line: Callable[[str], None] | None = None
    clean: Callable[[str], str] = str


def run_step(plan: StepPlan, stop: threading.Event) -> StepEnd:
    """Run a step to its end, its time limit, or ``stop``; its child processes end with it.

    The process leads its own group: Ctrl-C at the terminal reaches only this program, which then
    decides.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        list(plan.words),
        cwd=plan.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(plan.held,) if plan.held >= 0 else (),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    output = process.stdout
    assert output is not None
    kept: deque[str] = deque(maxlen=_LINES)
    reader = threading.Thread(target=_read, args=(output, plan, kept), daemon=True)
    reader.start()
    try:
        state = _wait(process, plan.seconds, started, stop)
    except BaseException:
        _end(process, 1.0)
        raise
    if state is not None:
        _end(process, 1.0 if state == "stopped" else _GRACE)
    reader.join(1.0)  # processes left by a step may hold the pipe
    if not reader.is_alive():
        output.close()
    seconds = round(time.monotonic() - started, 3)
    code = process.returncode
    if state is not None:
        return StepEnd(None, state, seconds, "\n".join(kept))
    return StepEnd(code, "failed" if code else "succeeded", seconds, "\n".join(kept))


def _wait(
    process: subprocess.Popen[bytes], limit: float | None, started: float, stop: threading.Event
) -> JobState | None:
    """Wait for the end; returns why the process must be killed, None if it ended by itself."""
    while True:
        left = _LOOK if limit is None else started + limit - time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK, left)))
            return None
        if stop.is_set():
            return "stopped"
        if limit is not None and time.monotonic() - started >= limit:
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


def _read(output: IO[bytes], plan: StepPlan, kept: deque[str]) -> None:
    with suppress(ValueError, OSError):  # closed under us
        while line := output.readline(65536):
            text = line.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
            text = plan.clean(printable(text))
            kept.append(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…")
            if plan.line is not None:
                plan.line(text)


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
