"""Tables in a SQLite file of the project."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..core import SchemaVersionError, StoreBusyError, StoreDamagedError
from ._database import Connection, Database
from ._kept_files import file_error, reading_connection, writable
from ._tables import Tables

_BUSY_SECONDS = 30.0


def sqlite_version() -> str:
    """Version of the SQLite library that Python brings."""
    return sqlite3.sqlite_version


class SqliteDatabase(Database):
    """A SQLite file of this program: WAL, owner-only, with its schema version checked.

    A file that cannot be written is read as it is; if it is also missing, it is empty. A statement
    that writes is then an error.

    Args:
        path: The file; made where it is missing.
        tables: What it holds.
        power_safe: Wait for the disk at each commit.
    """

    def __init__(self, path: Path, tables: Tables, power_safe: bool = False) -> None:
        self.path = path
        self.tables = tables
        self.name = path.name
        self.where = str(path)
        self._power_safe = power_safe
        self.read_only = not writable(path)
        with self.explained():
            if self.read_only:
                connection = self._reading()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
                connection = self._opened()
            with closing(connection):
                new = self._check(connection)  # before anything is written
                if not self.read_only:
                    self._prepare(connection)
                if new:
                    self._make_tables(connection)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, unless another process has made them meanwhile."""
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                self._lay_out(connection)

    def _lay_out(self, connection: sqlite3.Connection) -> None:
        for statement in _statements(self.tables):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self.tables.version}")

    def _check(self, connection: sqlite3.Connection) -> bool:
        """Refuse another program's file, and another version; True if the file is new."""
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
        ours = self.tables.statements[0].partition("(")[0].split()[-1]
        if names and ours not in names:
            raise StoreDamagedError(
                f"{self.path.name} is a SQLite file of another program: it has no table {ours!r}",
                where=str(self.path),
                hint="move it away and run the command again",
            )
        new = not (names or stored or self.read_only)
        if stored != self.tables.version and not new:
            raise SchemaVersionError(
                f"{self.path.name} has schema version {stored}; "
                f"this ragwright reads {self.tables.version}",
                where=str(self.path),
                hint=self.tables.rebuild
                or f"move {self.path.parent} away, then run: ragwright ingest",
            )
        return new

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into ours.

        Raises:
            StoreDamagedError: The file is damaged.
            StoreError: It cannot be used otherwise.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise file_error(error, self.path, damaged=self.tables.damaged) from error

    def connect(self) -> sqlite3.Connection:
        """A connection of its own; usable from any one thread at a time."""
        if self.read_only:
            return self._reading()
        with self.explained():
            connection = self._opened()
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._power_safe else 'NORMAL'}")
        _with_clock(connection)

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
        self._lay_out(connection)
        return _with_clock(connection)

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes; SQLite has one writer at a time."""
        connection.execute("BEGIN IMMEDIATE")

    def begin_reading(self, connection: Connection) -> None:
        """Begin a transaction that reads one state."""
        connection.execute("BEGIN")

    def stream(self, connection: Connection, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a query, one in memory at a time."""
        return iter(connection.execute(sql, values))

    def scrub(self, connection: Connection) -> None:
        """Overwrite deleted content, in the file and in its log.

        Raises:
            StoreBusyError: Another connection still reads the deleted content.
        """
        with self.explained():
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreBusyError(
                "the text is deleted but not yet overwritten: another process reads the file",
                where=self.where,
                hint="end other work on this project, then forget again",
            )

    def size(self) -> int:
        """Bytes of the file, 0 where it could not be made."""
        return self.path.stat().st_size if self.path.exists() else 0


def _statements(tables: Tables) -> Iterator[str]:
    """All that makes the tables, the triggers of those whose rows never change among it."""
    yield from tables.statements
    yield from tables.local
    for rule in tables.appended:
        refusal = f"BEGIN SELECT RAISE(ABORT, '{rule.table} is append-only'); END"
        for event, allowed in (("UPDATE", rule.change), ("DELETE", rule.removal)):
            yield (
                f"CREATE TRIGGER {rule.table}_{event.lower()} BEFORE {event} ON {rule.table} "
                f"WHEN NOT ({allowed}) {refusal}"
            )


def _with_clock(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection with the function that a shared database's server answers with its clock."""
    connection.create_function("clock_seconds", 0, lambda: time.time())
    return connection
