"""One thread writes for many. Writes that wait at the same moment share one transaction."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    file_error,
    reading_connection,
    writable,
)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Done = Callable[[Any, BaseException | None], None]

_BUSY_SECONDS = 30.0
_MOST_A_COMMIT = 512


class Database:
    """A SQLite file of this program: WAL, owner-only, with its schema version checked.

    Args:
        path: The file; made where it is missing.
        schema: Statements that make the tables; the first one makes the table that identifies files
            of this program.
        version: Schema version.
        power_safe: Wait for the disk at each commit.
        damaged: Hint if the file is damaged: what to do, and what that loses.

    A file that cannot be written is read as it is; if it is also missing, it is empty. A statement
    that writes is then an error.

    Attributes:
        read_only: True if it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        schema: Sequence[str],
        version: int,
        power_safe: bool,
        damaged: str = "",
    ) -> None:
        self.path = path
        self._damaged = damaged
        self._power_safe = power_safe
        self._schema = schema
        self._version = version
        self.read_only = not writable(path)
        if not self.read_only:
            self._make()
        with self.explained():
            self._check()
        connection = self.connect()
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found < version and self.read_only:
                raise SchemaVersionError(
                    f"{path.name} has schema version {found} and must be migrated to {version}",
                    where=str(path),
                    hint="run any command there once as a user who may write in the folder",
                )
            # else nothing is written, so that opening waits for no other writer
            if found < version:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    for statement in schema:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {version}")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._error(error) from error
        finally:
            connection.close()

    def _check(self) -> None:
        """Refuse another program's file, and a newer version, before anything is written."""
        if not self.path.is_file() or not self.path.stat().st_size:
            return
        with closing(reading_connection(self.path, _BUSY_SECONDS)) as connection:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
        ours = self._schema[0].partition("(")[0].split()[-1]
        if names and ours not in names:
            raise StoreDamagedError(
                f"{self.path.name} is a SQLite file of another program: it has no table {ours!r}",
                where=str(self.path),
                hint="move it away and run the command again",
            )
        if found > self._version:
            raise SchemaVersionError(
                f"{self.path.name} has schema version {found}; "
                f"this ragwright reads {self._version}",
                where=str(self.path),
                hint="upgrade ragwright: pip install -U ragwright",
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into ours.

        Raises:
            StoreDamagedError: The file is damaged.
            StoreError: It cannot be used otherwise.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        return file_error(error, self.path, damaged=self._damaged)

    def _make(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise file_error(error, self.path) from error

    def require_writable(self) -> None:
        """Refuse a file that cannot be written, before work is done or paid for.

        Raises:
            StoreError: The file cannot be written.
        """
        if self.read_only:
            raise StoreError(
                f"{self.path.name} cannot be written",
                where=str(self.path),
                hint="give this user the right to write in the folder, on a disk that is not "
                "mounted read-only",
            )

    def connect(self) -> sqlite3.Connection:
        """A connection of its own; usable from any one thread at a time."""
        if self.read_only:
            return self._reading()
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._power_safe else 'NORMAL'}")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if connection is not None:
                connection.close()
            raise self._error(error) from error
        return connection

    def _reading(self) -> sqlite3.Connection:
        if self.path.exists():
            with self.explained():
                return reading_connection(self.path, _BUSY_SECONDS)
        connection = self.in_memory()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def in_memory(self) -> sqlite3.Connection:
        """A connection to an empty temporary database with the same tables."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in (*self._schema, f"PRAGMA user_version = {self._version}"):
            connection.execute(statement)
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own that writes: committed at the end, undone on an error.

        For rare writes, from any thread or process; raises StoreError where the file
        cannot be used.
        """
        connection = self.connect()
        try:
            with self.explained():
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed


class Writer:
    """The one thread that writes to a database, with group commit.

    A piece of work is a function of the connection that changes nothing else: it may be repeated
    after a rollback. All waiting work is done in one transaction; callers are notified after the
    commit. If that fails, each piece is done in its own transaction, and an error goes only to the
    caller of the piece that raised it.

    Args:
        database: What it writes to.
        connection: Connection to use instead; the writer closes it.
    """

    def __init__(self, database: Database, connection: sqlite3.Connection | None = None) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[tuple[Work, Done] | None] = queue.SimpleQueue()
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
                raise StoreError("the store is closed", where=str(self._database.path))
            self._queue.put((work, done))

    def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
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
        self._thread.join()

    def _run(self) -> None:
        connection = self._connection
        closing = False
        while not closing:
            batch = []
            item = self._queue.get()
            while True:
                if item is None:
                    closing = True
                    break
                batch.append(item)
                if len(batch) >= _MOST_A_COMMIT:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._commit(connection, batch)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[Work, Done]]) -> None:
        results: list[tuple[Done, Any, BaseException | None]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for work, done in batch:
                results.append((done, work(connection), None))
            connection.execute("COMMIT")
        except Exception:  # rare: again one by one, to find the bad one
            _roll_back(connection)
            results = self._piecewise(connection, batch)
        for done, result, failure in results:
            with suppress(Exception):  # a caller whose loop is closed must not end the thread
                done(result, failure)

    def _piecewise(
        self, connection: sqlite3.Connection, batch: list[tuple[Work, Done]]
    ) -> list[tuple[Done, Any, BaseException | None]]:
        """Each piece by itself: no savepoints, which a full disk would lose too."""
        results: list[tuple[Done, Any, BaseException | None]] = []
        busy: Exception | None = None
        for work, done in batch:
            try:
                if busy is not None:  # each piece would wait as long as the first, in vain
                    raise busy
                connection.execute("BEGIN IMMEDIATE")
                result = work(connection)
                connection.execute("COMMIT")
                results.append((done, result, None))
            except Exception as error:
                _roll_back(connection)
                typed = self._typed(error)
                if isinstance(typed, StoreBusyError):
                    busy = error
                results.append((done, None, typed))
        return results

    def _typed(self, error: Exception) -> BaseException:
        try:
            with self._database.explained():
                raise error
        except Exception as typed:
            return typed


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # SQLite has done it by itself where the disk is full
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def one_to_forget(source: str | None, scope: str | None) -> None:
    """Refuse to forget everything, two things at once, or an empty name.

    Raises:
        StoreError: Neither or both are named, or the name is empty: that would select everything
            without a tenant.
    """
    if (source is None) == (scope is None):
        raise StoreError("name either a document or a scope to forget")
    if not (source if source is not None else scope or "").strip():
        raise StoreError(
            f"the name of the {'document' if source is not None else 'tenant'} is empty; nothing "
            "was forgotten",
            hint="an empty name would select everything without a tenant; is a variable not set?",
        )


def scrub(connection: sqlite3.Connection, database: Database) -> None:
    """Overwrite deleted content, so that forgotten text is gone from the file and its log.

    Raises:
        StoreBusyError: Another connection still reads the deleted content.
    """
    with database.explained():
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        raise StoreBusyError(
            "the text is deleted but not yet overwritten: another process reads the file",
            where=str(database.path),
            hint="end other work on this project, then forget again",
        )
