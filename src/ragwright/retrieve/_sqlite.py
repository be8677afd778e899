"""Reading a SQLite file so that nothing but reading can happen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..core import DatabaseError, StatementError
from ..flow import SqlReply
from ._tables import Column, DatabaseOptions, DatabaseReader, RowBuffer, Table

_STEPS = 1_000
"""Machine instructions of SQLite between two looks at the clock."""

_LONGEST_VALUE = 4_000_000
"""Bytes a value may reach on the way: bounds what one function call can build."""

_SAMPLE = 1_000
"""Rows that example values are taken from."""


class SqliteReader(DatabaseReader):
    """Opens the file read-only; an authorizer lets reading through and nothing else.

    A clock stops what takes too long, limits bound the size of values, and no extension,
    attached file or pragma can be reached.
    """

    dialect = "SQLite"

    def __init__(self, options: DatabaseOptions, path: Path) -> None:
        self._options = options
        self._path = path

    def schema(self) -> tuple[Table, ...]:
        """Tables and views with their columns; only those named, where any are."""
        with self._opened() as connection:
            names = [
                str(row[0])
                for row in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                    "AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
                )
            ]
            shown = [n for n in names if not self._options.tables or n in self._options.tables]
            return tuple(Table(name, tuple(self._columns(connection, name))) for name in shown)

    def _columns(self, connection: sqlite3.Connection, table: str) -> Iterator[Column]:
        for row in connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)):
            name, kind = str(row[0]), str(row[1]).lower()
            examples: tuple[str, ...] = ()
            if self._options.examples:
                quoted = f'"{name.replace(chr(34), chr(34) * 2)}"'
                source = f'"{table.replace(chr(34), chr(34) * 2)}"'
                found = connection.execute(
                    f"SELECT DISTINCT {quoted} FROM (SELECT {quoted} FROM {source} "  # noqa: S608
                    f"LIMIT {_SAMPLE}) WHERE {quoted} IS NOT NULL LIMIT ?",
                    (self._options.examples,),
                )
                examples = tuple(str(value)[:60] for (value,) in found)
            yield Column(name, kind, examples)

    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one checked statement, within all limits."""
        options = self._options
        buffer = RowBuffer(max_rows, options.max_characters)
        with self._opened() as connection:
            self._guard(connection)
            try:
                cursor = connection.execute(statement)
                columns = [str(column[0]) for column in cursor.description or ()]
                for row in cursor:
                    if not buffer.take(row):
                        break
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                raise self._rejected(error) from error
        return buffer.reply(columns)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        where = f"retrieve.databases: {self._options.name}"
        if not self._path.is_file():
            raise DatabaseError(
                f"there is no SQLite file {self._path.name!r} for {self._options.name!r}",
                where=where,
                hint="sqlite:///PATH starts from the project folder, sqlite:////PATH from the root",
            )
        try:
            # not `immutable`: another program may be writing, and its locks must be kept
            address = f"{self._path.resolve().as_uri()}?mode=ro"
            connection = sqlite3.connect(address, uri=True, timeout=self._options.timeout)
            with closing(connection):
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                yield connection
        except sqlite3.Error as error:
            raise DatabaseError(
                f"{self._options.name!r} cannot be read: {error}", where=where
            ) from error

    def _guard(self, connection: sqlite3.Connection) -> None:
        """Take from a connection all it could do beside reading."""
        for limit, most in (
            (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
            (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
            (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
        ):
            connection.setlimit(limit, most)
        end = time.monotonic() + self._options.timeout
        connection.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
        connection.set_authorizer(self._allowed)

    def _allowed(
        self, action: int, first: str | None, second: str | None, base: str | None, by: str | None
    ) -> int:
        """SQLite's question before each step of a statement; anything not named is denied."""
        tables = self._options.tables
        if action == sqlite3.SQLITE_READ:
            # `by` is the view on whose behalf a table is read: who may read the view may do so
            open_to = not tables or first in tables or by in tables
            return sqlite3.SQLITE_OK if open_to or not first else sqlite3.SQLITE_DENY
        if action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            refused = (second or "").lower() in {"load_extension", "readfile", "writefile", "edit"}
            return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _rejected(self, error: Exception) -> StatementError:
        reason = str(error)
        if reason == "interrupted":
            reason = f"it took longer than {self._options.timeout:g} s and was stopped"
        return StatementError(
            f"{self._options.name!r} did not answer the statement: {reason}",
            hint="only reading is allowed, within the limits under retrieve.databases",
        )
