"""Worker processes: work that may hang or exhaust memory, bounded, and killed when it does."""

from __future__ import annotations

import atexit
import os
import pickle
import resource
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_PATIENCE = 120.0
"""Seconds, beyond the limit, after which a worker counts as hung. Its own limit
counts processor time, of which a machine that swaps gives it little."""


class WorkerEndedError(Exception):
    """A worker ended before it answered.

    Attributes:
        reason: Why it ended; empty for the time limit.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def ask_worker(
    command: tuple[str, ...],
    request: object,
    seconds: float,
    done: Callable[[Any], bool] = lambda _: False,
    heard: Callable[[str], object] = lambda _: None,
) -> Any:
    """The answer of a worker process to a request; workers are started as needed and reused.

    Args:
        command: Arguments of the Python interpreter; the process must answer requests as
            :func:`serve_requests` does.
        request: Anything that can be pickled.
        seconds: Processor time after which the worker ends itself.
        done: Whether the worker is to be ended after this answer.
        heard: Gets what it tells meanwhile by :func:`tell`.

    Raises:
        WorkerEndedError: It ended without an answer; it is replaced.
    """
    worker = _POOL.take(command)
    try:
        answer = worker.ask(request, seconds, heard)
    except BaseException:
        worker.close()
        raise
    if done(answer):
        worker.close()
    else:
        _POOL.give(command, worker)
    return answer


def serve_requests(answer: Callable[[Any], object]) -> None:
    """Run as a worker: answer requests from standard input until there are no more.

    A request is eight bytes of length and a pickle, an answer likewise on standard output; other
    output of the process is discarded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb")
    _TOLD.append(os.dup(2))
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    requests = sys.stdin.buffer
    while head := requests.read(8):
        request = requests.read(int.from_bytes(head, "big"))
        reply = pickle.dumps(answer(pickle.loads(request)))  # noqa: S301 - of the parent process
        answers.write(len(reply).to_bytes(8, "big") + reply)
        answers.flush()


_TOLD: list[int] = []
"""In a worker, the pipe for what it is at."""


def tell(text: str) -> None:
    """Tell the parent process what a worker is at; in another process nothing happens."""
    for pipe in _TOLD:
        os.write(pipe, f"{text}\n".encode())


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
    """One process."""

    process: subprocess.Popen[bytes]

    @classmethod
    def started(cls, command: tuple[str, ...]) -> _Worker:
        return cls(
            subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )

    def ask(self, request: object, seconds: float, heard: Callable[[str], object]) -> Any:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        pickled = pickle.dumps(request)
        try:
            requests.write(len(pickled).to_bytes(8, "big"))
            requests.write(pickled)
            requests.flush()
        except BrokenPipeError:
            raise self._ended() from None
        del pickled
        self._await(answers, seconds, heard)
        head = answers.read(8)
        if len(head) < 8:
            raise self._ended()
        answer = answers.read(int.from_bytes(head, "big"))
        return pickle.loads(answer)  # noqa: S301 - of a process of our own

    def _await(self, answers: IO[bytes], seconds: float, heard: Callable[[str], object]) -> None:
        """Wait for an answer or the end of the process; hand on what it tells."""
        told = self.process.stderr
        assert told is not None
        with selectors.DefaultSelector() as ready:
            ready.register(answers, selectors.EVENT_READ)
            ready.register(told, selectors.EVENT_READ)
            while events := ready.select(_PATIENCE + 40 * seconds):
                pipes = [key.fileobj for key, _ in events]
                if told in pipes:
                    for line in os.read(told.fileno(), 4096).decode(errors="replace").splitlines():
                        heard(line)
                if answers in pipes:
                    return
        raise WorkerEndedError

    def _ended(self) -> WorkerEndedError:
        code = self.process.wait()
        reason = (
            ""
            if code in (-signal.SIGPROF, -signal.SIGALRM)
            else f"its process ended with status {code}"
        )
        return WorkerEndedError(reason)

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


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


_STATUS = Path("/proc/self/statm")


def address_space() -> int:
    """Address space of this process in bytes; 0 where the system does not say."""
    try:
        return int(_STATUS.read_text("ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


@contextmanager
def limit_work(most: int, seconds: float, waiting: float = 0.0) -> Iterator[None]:
    """A block that may take ``most`` bytes of address space, if not 0, and ``seconds`` of CPU.

    More memory is a MemoryError; more time ends the process by ``SIGPROF``. With ``waiting``, more
    seconds by the clock end it by ``SIGALRM``.
    """
    _limit_memory(most or resource.RLIM_INFINITY)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, waiting)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _limit_memory(resource.RLIM_INFINITY)


def _limit_memory(most: int) -> None:
    with suppress(OSError, ValueError):  # systems that bound no address space
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            most = hard if most == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
