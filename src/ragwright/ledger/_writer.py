"""One thread writes for many. Writes that wait at the same moment share one transaction."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from ..core import StoreBusyError, StoreError, StoreUnreachableError
from ._database import Connection, Database

T = TypeVar("T")

_MOST_A_COMMIT = 512

_Piece: TypeAlias = tuple[Callable[[Connection], Any], "Future[Any]"]


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

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Queue work; its future ends after the commit, on the writer's thread.

        Work whose future is cancelled before it is begun is left out.
        """
        future: Future[T] = Future()
        with self._lock:  # nothing is queued behind the end mark, where it would never run
            if self._closed:
                raise StoreError("the store is closed", where=self._database.where)
            self._queue.put((work, future))
        return future

    def call(self, work: Callable[[Connection], T]) -> T:
        """Do work and wait for its commit."""
        return self.submit(work).result()

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
        with suppress(StoreError):  # closed: then all of it is done
            self.call(lambda _: None)

    def _run(self) -> None:
        closing = False
        while not closing:
            items = [self._queue.get()]
            with suppress(queue.Empty):
                while items[-1] is not None and len(items) < _MOST_A_COMMIT:
                    items.append(self._queue.get_nowait())
            closing = items[-1] is None
            self._commit(
                [item for item in items if item and item[1].set_running_or_notify_cancel()]
            )
        self._connection.close()

    def _commit(self, batch: list[_Piece]) -> None:
        results: list[tuple[Any, BaseException | None]]
        try:
            self._database.begin(self._connection)
            results = [(work(self._connection), None) for work, _ in batch]
            self._connection.execute("COMMIT")
        except Exception:  # rare: again one by one, to find the bad one
            self._roll_back()
            results = self._piecewise(batch)
        for (_, future), (result, failure) in zip(batch, results, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _piecewise(self, batch: list[_Piece]) -> list[tuple[Any, BaseException | None]]:
        """Do each piece by itself: no savepoints, which a full disk would lose too."""
        results: list[tuple[Any, BaseException | None]] = []
        busy: StoreError | None = None
        for work, _ in batch:
            try:
                if busy is not None:  # each piece would wait as long as the first, in vain
                    raise busy
                with self._database.explained():
                    self._database.begin(self._connection)
                    result = work(self._connection)
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
