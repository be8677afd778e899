"""The ledger of a project: one database, one writer and one reader for all who open it."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreUnreachableError,
)
from ._database import Connection, Database, Place
from ._postgres import PostgresDatabase
from ._sqlite import SqliteDatabase, discard, file_error
from ._tables import Tables, ledger_tables

T = TypeVar("T")


def open_database(place: Place, tables: Tables) -> Database:
    """Open the tables of a subject in a SQLite file, or in a shared database; close it after use.

    Raises:
        StoreError: It cannot be used; its subclasses say why.
    """
    if isinstance(place, Path):
        return SqliteDatabase(place, tables)
    return PostgresDatabase(place, tables)


class Ledger:
    """A database, opened, with one writer and one reader, each made when first needed.

    Attributes:
        database: The database.

    Raises:
        StoreError: As :func:`open_database`.
    """

    def __init__(self, place: Place, tables: Tables | None = None) -> None:
        self.database = open_database(place, tables or ledger_tables())
        self._lock = threading.Lock()
        self._reader: Connection | None = None
        self._writer: Writer | None = None
        self._pid = os.getpid()
        self._closed = False

    @property
    def writer(self) -> Writer:
        """The one thread that writes to it.

        Raises:
            StoreError: The ledger was closed.
        """
        with self._lock:
            self._require_open()
            self._writer = self._writer or Writer(self.database)
            return self._writer

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work that writes, and wait for its commit; see :class:`Writer`.

        Raises:
            StoreError: It cannot be written.
        """
        self.database.require_writable()
        return self.writer.call(work)

    def select(self, query: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """Read all rows of a query; from any thread.

        Raises:
            StoreError: It cannot be read.
        """
        with self._lock, self.database.explained():
            self._require_open()
            reader = self._reader = self._reader or self.database.connect()
            try:
                return list(reader.execute(query, values).fetchall())
            except BaseException:  # a query without an answer would block those after it
                self._reader = None
                reader.close()
                raise

    def scrub(self) -> None:
        """Overwrite deleted content; see :meth:`Database.scrub`."""
        with self._lock:
            self._reader = self._reader or self.database.connect()
            self.database.scrub(self._reader)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", where=self.database.where)

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed or self._pid != os.getpid():  # a copy in a forked process
            return
        for opened in (self._writer, self._reader):
            if opened is not None:
                opened.close()


def open_cache(path: Path, tables: Tables) -> SqliteDatabase:
    """Open the tables of a file that may be lost: one that cannot be read is replaced.

    Raises:
        StoreError: It cannot be used otherwise.
    """
    try:
        return SqliteDatabase(path, tables)
    except (StoreDamagedError, SchemaVersionError):
        try:
            discard(path)
        except OSError as error:
            raise file_error(error, path) from error
        return SqliteDatabase(path, tables)


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

    def execute(self, sql: str, values: Sequence[Any]) -> Future[Any]:
        """Queue one statement."""
        return self.submit(methodcaller("execute", sql, values))

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
