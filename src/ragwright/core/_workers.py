"""Worker processes: work that may hang or exhaust memory, killed when it does."""

from __future__ import annotations

import atexit
import mmap
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from ._pattern_worker import serve_requests as serve_requests

PatternToken: TypeAlias = str | int
"""A literal, or the number of a group."""

_PATTERN_WORKER = (
    # isolated, without site-packages: it starts fast, and a user's __main__ does not run again
    *("-I", "-S"),
    str(Path(__file__).with_name("_pattern_worker.py")),
)
_PATIENCE = 60.0
"""Seconds without progress, beyond the limit, after which a worker counts as hung. Its own limit
counts processor time, of which a machine that swaps gives it little."""


class WorkerEndedError(Exception):
    """A worker ended before it answered.

    Attributes:
        step: Position of the text it was working on; 0 if the work has no steps.
        reason: Why it ended; empty for the time limit.
    """

    def __init__(self, step: int, reason: str = "") -> None:
        super().__init__(step, reason)
        self.step = step
        self.reason = reason


def run_pattern(
    find: str,
    tokens: tuple[PatternToken, ...] | Literal["starts"] | None,
    texts: Sequence[str],
    seconds: float,
    flags: int = 0,
) -> list[Any]:
    """A pattern over texts in a worker process.

    Args:
        find: The pattern.
        tokens: What to replace matches by; ``starts`` to get the positions of the matches; None to
            search.
        texts: What to search, each on its own.
        seconds: Processor time that one text may take.
        flags: Of `re.compile`.

    Returns:
        Per text a bool, or a list of positions, or the new text.

    Raises:
        WorkerEndedError: A text took too long, or the worker was killed; it is replaced.
    """
    if not texts:
        return []
    request = (find, flags, tokens, seconds, list(texts))
    results: list[Any] = ask_worker(_PATTERN_WORKER, request, seconds)
    return results


def ask_worker(
    command: tuple[str, ...],
    request: object,
    seconds: float,
    done: Callable[[Any], bool] = lambda _: False,
) -> Any:
    """The answer of a worker process to a request; workers are started as needed and reused.

    Args:
        command: Arguments of the Python interpreter; the process must answer requests as
            :func:`serve_requests` does.
        request: Anything that can be pickled.
        seconds: Processor time after which the worker ends itself.
        done: Whether the worker is to be ended after this answer.

    Raises:
        WorkerEndedError: It ended without an answer; it is replaced.
    """
    worker = _POOL.take(command)
    try:
        answer = worker.ask(request, seconds)
    except BaseException:
        worker.close()
        raise
    if done(answer):
        worker.close()
    else:
        _POOL.give(command, worker)
    return answer


@contextmanager
def workers() -> Iterator[None]:
    """Keep worker processes while a step runs, and end them after it."""
    _POOL.open()
    try:
        yield
    finally:
        _POOL.close()


@dataclass(slots=True)
class _Worker:
    """One process; ``step`` is a file of eight bytes in which it notes where it is."""

    process: subprocess.Popen[bytes]
    step: mmap.mmap

    @classmethod
    def started(cls, command: tuple[str, ...]) -> _Worker:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            process = subprocess.Popen(
                [sys.executable, *command, str(file.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(file.fileno(),),
            )
            return cls(process, mmap.mmap(file.fileno(), 8))

    def ask(self, request: object, seconds: float) -> Any:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        pickled = pickle.dumps(request)
        self.step[:8] = bytes(8)
        try:
            requests.write(len(pickled).to_bytes(8, "big"))
            requests.write(pickled)
            requests.flush()
        except BrokenPipeError:
            raise self._ended() from None
        del pickled
        self._await(answers, seconds)
        head = answers.read(8)
        if len(head) < 8:
            raise self._ended()
        answer = answers.read(int.from_bytes(head, "big"))
        return pickle.loads(answer)  # noqa: S301 - of a process of our own

    def _await(self, answers: IO[bytes], seconds: float) -> None:
        """Wait for an answer or the end of the process while it makes progress."""
        with selectors.DefaultSelector() as ready:
            ready.register(answers, selectors.EVENT_READ)
            before = -1
            while not ready.select(_PATIENCE + 20 * seconds):
                step = self._step()
                if step == before:
                    raise WorkerEndedError(step)
                before = step

    def _step(self) -> int:
        return int.from_bytes(self.step[:8], "big")

    def _ended(self) -> WorkerEndedError:
        code = self.process.wait()
        reason = (
            ""
            if code in (-signal.SIGPROF, -signal.SIGALRM)
            else f"its process ended with status {code}"
        )
        return WorkerEndedError(self._step(), reason)

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.step.close()


@dataclass(slots=True)
class _Pool:
    """Idle workers by command: at most as many as ever ran at once."""

    idle: list[tuple[tuple[str, ...], _Worker]] = field(default_factory=list)
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, command: tuple[str, ...]) -> _Worker:
        while True:
            with self.lock:
                at = next((i for i, (c, _) in enumerate(self.idle) if c == command), None)
                worker = None if at is None else self.idle.pop(at)[1]
            if worker is None:
                return _Worker.started(command)
            if worker.process.poll() is None:
                return worker
            worker.close()

    def give(self, command: tuple[str, ...], worker: _Worker) -> None:
        with self.lock:
            self.idle.append((command, worker))

    def open(self) -> None:
        with self.lock:
            self.users += 1

    def close(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users > 0:
                return
        self.clear()

    def clear(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for _, worker in idle:
            worker.close()


_POOL = _Pool()
atexit.register(_POOL.clear)
