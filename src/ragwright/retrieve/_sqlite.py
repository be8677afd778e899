"""Reading a SQLite file so that nothing but reading can happen."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path

from ..core import DatabaseError, StatementError
from ..flow import SqlReply
from ._options import DatabaseOptions
from ._statement import named_subqueries
from ._tables import Column, DatabaseReader, RowBuffer, Table

_NAMES = (
    "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
)

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

    def fingerprint(self) -> str:
        """Hash of the file and of what is written ahead of it; read again when it changes.

        Raises:
            DatabaseError: It cannot be read.
        """
        ahead = self._path.with_name(f"{self._path.name}-wal")
        try:
            return "".join(_digest(path, *_age(path)) for path in (self._path, ahead))
        except OSError as error:
            raise DatabaseError(
                f"the file cannot be read: {error.strerror}", where=str(self._path)
            ) from error

    def schema(self) -> tuple[Table, ...]:
        """Tables and views with their columns; only those named, where any are.

        Example values are taken while the time limit allows: a slow view costs those that are
        left, not the schema.
        """
        with self._opened() as connection:
            names = [str(name) for name, _ in connection.execute(_NAMES)]
            shown = [n for n in names if not self._options.tables or n in self._options.tables]
            plain = {
                table: [
                    (str(name), str(kind).lower())
                    for name, kind in connection.execute(
                        "SELECT name, type FROM pragma_table_info(?)", (table,)
                    )
                ]
                for table in shown
            }
            return tuple(
                Table(
                    table,
                    tuple(Column(n, k, self._examples(connection, table, n)) for n, k in columns),
                )
                for table, columns in plain.items()
            )

    def _examples(self, connection: sqlite3.Connection, table: str, name: str) -> tuple[str, ...]:
        if not self._options.examples:
            return ()
        quoted = f'"{name.replace(chr(34), chr(34) * 2)}"'
        source = f'"{table.replace(chr(34), chr(34) * 2)}"'
        try:
            found = connection.execute(
                f"SELECT DISTINCT {quoted} FROM (SELECT {quoted} FROM {source} "  # noqa: S608
                f"LIMIT {_SAMPLE}) WHERE {quoted} IS NOT NULL LIMIT ?",
                (self._options.examples,),
            )
            return tuple(str(value)[:60] for (value,) in found)
        except sqlite3.OperationalError:
            return ()

    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one checked statement, within all limits."""
        options = self._options
        buffer = RowBuffer(max_rows, options.max_characters)
        with self._opened() as connection:
            self._guard(connection, self._views_to_read(connection, statement))
            try:
                cursor = connection.execute(statement)
                columns = [str(column[0]) for column in cursor.description or ()]
                for row in cursor:
                    if not buffer.take(row):
                        break
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                raise self._rejected(error) from error
        return buffer.reply(columns)

    def _views_to_read(self, connection: sqlite3.Connection, statement: str) -> frozenset[str]:
        """Views on whose behalf any table may be read, in small letters.

        SQLite tells the authorizer the name of a view and that of a subquery named by ``WITH``
        in the same way, so that the second must not equal any of the first.

        Raises:
            StatementError: A subquery is named like a table or view.
        """
        if not self._options.tables:
            return frozenset()
        kinds = {str(name).lower(): kind for name, kind in connection.execute(_NAMES)}
        hiding = sorted(named_subqueries(statement) & kinds.keys())
        if hiding:
            raise StatementError(
                f"the statement was not run: WITH gives the name of the table {hiding[0]!r} "
                "to something else",
                hint="name the subquery differently",
            )
        allowed = {name.lower() for name in self._options.tables}
        return frozenset(name for name in allowed if kinds.get(name) == "view")

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
                end = time.monotonic() + self._options.timeout
                connection.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
                yield connection
        except sqlite3.Error as error:
            raise DatabaseError(
                f"{self._options.name!r} cannot be read: {error}", where=where
            ) from error

    def _guard(self, connection: sqlite3.Connection, views: frozenset[str]) -> None:
        """Take from a connection all it could do beside reading."""
        for limit, most in (
            (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
            (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
            (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
        ):
            connection.setlimit(limit, most)
        connection.set_authorizer(partial(self._allowed, views))

    def _allowed(
        self,
        views: frozenset[str],
        action: int,
        first: str | None,
        second: str | None,
        base: str | None,
        by: str | None,
    ) -> int:
        """SQLite's question before each step of a statement; anything not named is denied."""
        tables = self._options.tables
        if action == sqlite3.SQLITE_READ:
            # `by` is the view on whose behalf a table is read: who may read the view may do so
            open_to = not tables or first in tables or (by or "").lower() in views
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


def _age(path: Path) -> tuple[int, int]:
    """When a file was changed, and its size; 0 where there is none: nothing is written ahead."""
    if path.name.endswith("-wal") and not path.is_file():
        return 0, 0
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=64)
def _digest(path: Path, changed: int, size: int) -> str:
    """Hash of a file of this age and size, empty of one without bytes."""
    if not size:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
