"""One thread writes for many. Writes that wait at the same moment share one transaction."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ..core import StoreBusyError, StoreError, StoreUnreachableError
from ._database import Connection, Database, Done, Work

T = TypeVar("T")

_MOST_A_COMMIT = 512


class _Piece(NamedTuple):
    """Work, and the callback for its result."""

    work: Work
    done: Done


class Writer:
    """The one thread that writes to a database, with group commit.

    A piece of work is a function of the connection that changes nothing else: it may be repeated
    after a rollback, or after a commit whose answer was lost with the connection. All waiting work
    is done in one transaction; callers are notified after the commit. If that fails, each piece is
    done in its own transaction, and an error goes only to the caller of the piece that raised it.

    Args:
        database: What it writes to.
        connection: Connection to use instead; the writer closes it.
    """

    def __init__(self, database: Database, connection: Connection | None = None) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        # here, so that a failure is raised to the opener
        self._connection = connection or database.connect()
        self._thread = threading.Thread(target=self._run, name="ragwright-writer", daemon=True)
        self._closed = False
        self._lock = threading.Lock()
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Queue work; ``done(result, error)`` is called on the writer's thread."""
        with self._lock:  # nothing is queued behind the end mark, where it would never run
            if self._closed:
                raise StoreError("the store is closed", where=self._database.where)
            self._queue.put(_Piece(work, done))

    def call(self, work: Callable[[Connection], T]) -> T:
        """Do work and wait for its commit."""
        finished = threading.Event()
        box: list[Any] = [None, None]

        def done(result: Any, error: BaseException | None) -> None:
            box[0], box[1] = result, error
            finished.set()

        self.submit(work, done)
        finished.wait()
        if box[1] is not None:
            raise box[1]
        result: T = box[0]
        return result

    def close(self) -> None:
        """Finish what is queued and end the thread; safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def drain(self) -> None:
        """Wait until all work queued so far is done; its errors go to its callers."""
        finished = threading.Event()
        with suppress(StoreError):  # closed: then all of it is done
            self.submit(lambda _: None, lambda *_: finished.set())
            finished.wait()

    def _run(self) -> None:
        closing = False
        while not closing:
            items = [self._queue.get()]
            with suppress(queue.Empty):
                while items[-1] is not None and len(items) < _MOST_A_COMMIT:
                    items.append(self._queue.get_nowait())
            closing = items[-1] is None
            self._commit([item for item in items if item is not None])
        self._connection.close()

    def _commit(self, batch: list[_Piece]) -> None:
        try:
            self._database.begin(self._connection)
            results: list[tuple[Any, BaseException | None]]
            results = [(piece.work(self._connection), None) for piece in batch]
            self._connection.execute("COMMIT")
        except Exception:  # rare: again one by one, to find the bad one
            self._roll_back()
            results = self._piecewise(batch)
        for piece, (result, failure) in zip(batch, results, strict=True):
            with suppress(Exception):  # a caller whose loop is closed must not end the thread
                piece.done(result, failure)

    def _piecewise(self, batch: list[_Piece]) -> list[tuple[Any, BaseException | None]]:
        """Do each piece by itself: no savepoints, which a full disk would lose too."""
        results: list[tuple[Any, BaseException | None]] = []
        busy: StoreError | None = None
        for piece in batch:
            try:
                if busy is not None:  # each piece would wait as long as the first, in vain
                    raise busy
                with self._database.explained():
                    self._database.begin(self._connection)
                    result = piece.work(self._connection)
                    self._connection.execute("COMMIT")
                results.append((result, None))
            except Exception as error:
                self._roll_back()
                if isinstance(error, StoreBusyError | StoreUnreachableError):
                    busy = error
                results.append((None, error))
        return results

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite has done it itself where the disk is full
            with suppress(Exception):
                self._connection.execute("ROLLBACK")


def committed() -> tuple[asyncio.Future[Any], Callable[[Any, BaseException | None], None]]:
    """A future of the running loop, and the writer's callback that settles it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def done(result: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(settle, result, error)

    return future, done


def unheard(_result: Any, _error: BaseException | None) -> None:
    """Ignore a result: the callback of work that nobody waits for."""
