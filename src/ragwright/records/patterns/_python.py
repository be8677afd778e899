"""Worker processes for the patterns that only Python's ``re`` can run, killed when one hangs."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

Token: TypeAlias = str | int
"""A literal, or the number of a group."""

_SCRIPT = Path(__file__).with_name("_python_worker.py")
_PATIENCE = 60.0
"""Seconds of no progress at all, limit aside, after which a worker counts as hung: a worker's own
limit counts processor time, which a machine that swaps does not give it."""


class RowTooLongError(Exception):
    """A worker ended on a row.

    Attributes:
        row: Position of the row among the texts.
        how: What ended it, in words; empty where it was the time limit.
    """

    def __init__(self, row: int, how: str = "") -> None:
        super().__init__(row, how)
        self.row = row
        self.how = how


def run_python(
    find: str, tokens: tuple[Token, ...] | None, texts: Sequence[str], seconds: float
) -> list[Any]:
    """A pattern over texts in a worker process.

    Args:
        find: The pattern.
        tokens: What to replace matches by; None to search.
        texts: The rows.
        seconds: Processor time that one row may take.

    Returns:
        A bool per text, or a text per text where there are tokens.

    Raises:
        RowTooLongError: A row took too long, or the worker was killed; it is replaced.
    """
    if not texts:
        return []
    worker = _POOL.take()
    try:
        answer = worker.ask((find, tokens, seconds, list(texts)), seconds)
    except BaseException:
        worker.close()
        raise
    _POOL.give(worker)
    return answer


@contextmanager
def workers() -> Iterator[None]:
    """Holds worker processes while a step runs; they start when one is needed."""
    _POOL.open()
    try:
        yield
    finally:
        _POOL.close()


@dataclass(slots=True)
class _Worker:
    """One process; ``row`` is a file of eight bytes in which it notes where it is."""

    process: subprocess.Popen[bytes]
    row: mmap.mmap

    @classmethod
    def started(cls) -> _Worker:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            # isolated, without site-packages: quick, and a user's __main__ does not run again
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(file.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(file.fileno(),),
            )
            return cls(process, mmap.mmap(file.fileno(), 8))

    def ask(self, request: object, seconds: float) -> list[Any]:
        asked, answers = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answers is not None
        told = pickle.dumps(request)
        self.row[:8] = bytes(8)
        try:
            asked.write(len(told).to_bytes(8, "big") + told)
            asked.flush()
        except BrokenPipeError:
            raise self._ended() from None
        self._await(answers, seconds)
        head = answers.read(8)
        if len(head) < 8:
            raise self._ended()
        answer = answers.read(int.from_bytes(head, "big"))
        found: list[Any] = pickle.loads(answer)  # noqa: S301 - of a process of our own
        return found

    def _await(self, answers: IO[bytes], seconds: float) -> None:
        """Wait for an answer, or an end, as long as rows go by."""
        with selectors.DefaultSelector() as ready:
            ready.register(answers, selectors.EVENT_READ)
            before = -1
            while not ready.select(_PATIENCE + 20 * seconds):
                row = self._row()
                if row == before:
                    raise RowTooLongError(row)
                before = row

    def _row(self) -> int:
        return int.from_bytes(self.row[:8], "big")

    def _ended(self) -> RowTooLongError:
        code = self.process.wait()
        how = "" if code == -signal.SIGPROF else f"its process ended with status {code}"
        return RowTooLongError(self._row(), how)

    def close(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.row.close()


@dataclass(slots=True)
class _Pool:
    """Workers at leisure: as many as were ever asked for at once."""

    idle: list[_Worker] = field(default_factory=list)
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> _Worker:
        while True:
            with self.lock:
                worker = self.idle.pop() if self.idle else None
            if worker is None:
                return _Worker.started()
            if worker.process.poll() is None:
                return worker
            worker.close()

    def give(self, worker: _Worker) -> None:
        with self.lock:
            self.idle.append(worker)

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
        for worker in idle:
            worker.close()


_POOL = _Pool()
atexit.register(_POOL.clear)
