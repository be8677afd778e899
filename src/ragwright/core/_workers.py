"""Worker processes: work that may hang or exhaust memory, bounded, and killed when it does."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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
    """Run as a worker: answer requests from standard input, a socket, until there are no more.

    Output of the process is discarded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    parent = Connection(os.dup(0))
    _PARENT.append(parent)
    with suppress(EOFError):
        while True:
            parent.send((True, answer(parent.recv())))


_PARENT: list[Connection] = []
"""In a worker, the connection to the process that asks it."""


def tell(text: str) -> None:
    """Tell the parent process what a worker is at; in another process nothing happens."""
    for parent in _PARENT:
        parent.send((False, text))


@contextmanager
def workers() -> Iterator[None]:
    """Keep worker processes while a step runs, and end them after it."""
    _POOL.users += 1
    try:
        yield
    finally:
        _POOL.users -= 1
        if not _POOL.users:
            _POOL.clear()


class _Worker:
    """One process."""

    def __init__(self, command: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.connection = Connection(ours.detach())

    def ask(self, request: object, seconds: float, heard: Callable[[str], object]) -> Any:
        try:
            self.connection.send(request)
            while self.connection.poll(_PATIENCE + 40 * seconds):
                answered, said = self.connection.recv()
                if answered:
                    return said
                heard(said)
        except (EOFError, OSError):
            code = self.process.wait()
            timed_out = code in (-signal.SIGPROF, -signal.SIGALRM)
            reason = "" if timed_out else f"its process ended with status {code}"
            raise WorkerEndedError(reason) from None
        raise WorkerEndedError

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


class _Pool:
    """Idle workers by command: at most as many as ever ran at once."""

    def __init__(self) -> None:
        self.users = 0
        self._idle: dict[tuple[str, ...], list[_Worker]] = {}

    def take(self, command: tuple[str, ...]) -> _Worker:
        with suppress(IndexError):  # no thread may look and then pop
            while True:
                worker = self._idle.setdefault(command, []).pop()
                if worker.process.poll() is None:
                    return worker
                worker.close()
        return _Worker(command)

    def give(self, command: tuple[str, ...], worker: _Worker) -> None:
        self._idle.setdefault(command, []).append(worker)

    def clear(self) -> None:
        idle, self._idle = self._idle, {}
        for worker in chain.from_iterable(idle.values()):
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
