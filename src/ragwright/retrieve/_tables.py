"""SQL databases: their tables, and readers of SQLite and PostgreSQL that can write nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from ..core import DatabaseError, StatementError, count_noun, hide_secret, require, text_hash
from ..flow import SqlReply
from . import _sqlite_child
from ._options import DatabaseOptions

CELL = 2_000
"""Characters of one value; a longer one is cut, with a note."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the database's name of its type, some of its values."""

    name: str
    type: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view and its columns, in the database's order."""

    name: str
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of a spreadsheet or CSV file.

    Attributes:
        table: Its name in statements, and its columns.
        name: Its name in the file of all tables.
        document: Id of the document.
        source: The file.
        title: Title of the document.
        sheet: Name of the sheet; that of the file for CSV.
        page: Number of the sheet; None for CSV.
        span: First and last character of the table in the document.
        groups: Groups of readers that its document names.
        stamp: Hash of its document.
    """

    table: Table
    name: str
    document: str
    source: str
    title: str
    sheet: str
    page: int | None
    span: tuple[int, int]
    groups: tuple[str, ...]
    stamp: str


@dataclass(frozen=True, slots=True)
class QueryDatabase:
    """A database for routing and prompts; ``problem`` says why it cannot be queried.

    ``sheets`` are its tables where they are those of ingested spreadsheets.
    """

    options: DatabaseOptions
    tables: tuple[Table, ...] = ()
    dialect: str = "SQL"
    problem: str = ""
    sheets: tuple[Sheet, ...] = ()

    @property
    def within(self) -> tuple[tuple[str, str, str], ...]:
        """Its sheets as a statement is bound to them."""
        return tuple((sheet.table.name, sheet.name, sheet.stamp) for sheet in self.sheets)

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents of its sheets, whose texts stand in its schema."""
        return tuple(dict.fromkeys(sheet.document for sheet in self.sheets))


class DatabaseReader(ABC):
    """Reads one database, with a new connection for every call, so that no state is kept."""

    dialect: str = "SQL"

    @abstractmethod
    def schema(self) -> tuple[Table, ...]:
        """Tables and views with their columns.

        Raises:
            DatabaseError: It cannot be opened or read.
        """

    def fingerprint(self) -> str:
        """Hash of its content, as far as possible: here of its schema only.

        Raises:
            DatabaseError: It cannot be opened or read.
        """
        return text_hash(repr(self.schema()))

    @abstractmethod
    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one statement.

        Raises:
            StatementError: The database rejects it, or it takes too long.
            DatabaseError: The database cannot be opened.
        """


def read_rows(
    rows: Iterable[Sequence[Any]], columns: Sequence[str], max_rows: int, max_characters: int
) -> SqlReply:
    """Rows until a limit is reached, as a reply; values are converted to plain, short ones."""
    plain: list[tuple[Any, ...]] = []
    used, cut, truncated = 0, False, False
    for row in rows:
        values = []
        for value in row:
            if isinstance(value, bytes | memoryview):
                value = f"<{len(value)} bytes>"
            elif not (value is None or isinstance(value, bool | int | float)):
                value = str(value)
                if len(value) > CELL:
                    value, cut = value[:CELL] + "…", True
            values.append(value)
        used += sum(len(str(value)) for value in values)
        if len(plain) >= max_rows or used > max_characters:
            truncated = True
            break
        plain.append(tuple(values))
    notes = []
    if truncated and len(plain) >= max_rows:
        notes.append(f"only the first {max_rows} rows were read")
    elif truncated:
        notes.append(
            f"only {count_noun(len(plain), 'row')} fit in {max_characters} characters; there are "
            "more"
        )
    if cut:
        notes.append(f"values longer than {CELL} characters were cut")
    return SqlReply(tuple(columns), tuple(plain), truncated, tuple(notes))


_NAMES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
)

_COLUMNS = "SELECT name, type FROM pragma_table_info(?)"

_START_SECONDS = 5.0
"""Seconds that a process may take to start, beside the time of the statement."""

_GONE = "its process was ended by the system"

_SAMPLE = 1_000
"""Number of rows from which example values are taken."""


class SqliteReader(DatabaseReader):
    """Opens the file read-only; an authorizer allows only reading.

    A statement runs in a separate process with limits on time and memory; limits bound the size of
    values, and no extension, attached file or pragma can be reached.
    """

    dialect = "SQLite"
    hidden: tuple[str, ...] = ()
    """Columns that the schema leaves out."""

    examples: int = 0
    """Values of each column that the schema shows."""

    def __init__(self, options: DatabaseOptions, path: Path) -> None:
        self._options = options
        self._path = path

    def fingerprint(self) -> str:
        """Hash of the file and its write-ahead log; read again when it changes.

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
        """Tables and views with their columns; only the named ones, if any are named.

        Example values are read until the time limit: after a slow view they are missing, but the
        schema is complete.
        """
        with self._opened() as connection:
            names = [str(name) for (name,) in connection.execute(_NAMES)]
            shown = [n for n in names if not self._options.tables or n in self._options.tables]
            plain = {table: list(connection.execute(_COLUMNS, (table,))) for table in shown}
            return tuple(
                Table(
                    table,
                    tuple(
                        Column(name, kind.lower(), self._examples(connection, table, name))
                        for name, kind in columns
                        if name not in self.hidden
                    ),
                )
                for table, columns in plain.items()
            )

    def _examples(self, connection: sqlite3.Connection, table: str, name: str) -> tuple[str, ...]:
        if not self.examples:
            return ()
        quoted = f'"{name.replace(chr(34), chr(34) * 2)}"'
        source = f'"{table.replace(chr(34), chr(34) * 2)}"'
        try:
            examples = connection.execute(
                f"SELECT DISTINCT {quoted} FROM (SELECT {quoted} FROM {source} "  # noqa: S608
                f"LIMIT {_SAMPLE}) WHERE {quoted} IS NOT NULL LIMIT ?",
                (self.examples,),
            )
            return tuple(str(value)[:60] for (value,) in examples)
        except sqlite3.OperationalError:
            return ()

    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one statement, within all limits."""
        return self._reply(statement, max_rows, {"tables": list(self._options.tables)})

    def _reply(self, statement: str, max_rows: int, readable: Mapping[str, Any]) -> SqlReply:
        """Rows of a statement from the child process, which is told what may be read."""
        options = self._options
        job = {
            "address": self._address(),
            "statement": statement,
            "timeout": options.timeout,
            "tables": [],
            "sheets": None,
            "cell": CELL,
            "max_rows": max_rows,
            "max_characters": options.max_characters,
            **readable,
        }
        head, *rows, foot = self._lines(job)
        # bytes are replaced by their number
        cells = (
            [f"<{cell['bytes']} bytes>" if isinstance(cell, dict) else cell for cell in row]
            for row in rows
        )
        reply = read_rows(cells, head["columns"], max_rows, options.max_characters)
        start, end = foot["place"]
        return replace(reply, read=tuple((name, start, end) for name in head["read"]))

    def _lines(self, job: Mapping[str, Any]) -> list[Any]:
        """Columns, rows and end from the child process."""
        command = [sys.executable, "-I", _sqlite_child.__file__]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(job).encode(),
                capture_output=True,
                timeout=self._options.timeout + _START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._rejected("interrupted") from None
        lines = done.stdout.splitlines()
        last = json.loads(lines[-1]) if lines and not done.returncode else {"error": _GONE}
        if "error" in last:
            if last["error"] == _sqlite_child.CHANGED:
                raise DatabaseError("a table has changed meanwhile", hint="ask again")
            raise self._rejected(str(last["error"]))
        return [json.loads(line) for line in lines]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        where = f"retrieve.databases: {self._options.name}"
        if not self._path.is_file():
            raise DatabaseError(
                f"the SQLite file {self._path.name!r} of the database {self._options.name!r} does "
                "not exist",
                where=where,
                hint="sqlite:///PATH starts from the project folder, sqlite:////PATH from the root",
            )
        try:
            with closing(
                _sqlite_child.open_read_only(self._address(), self._options.timeout)
            ) as connection:
                yield connection
        except sqlite3.Error as error:
            raise DatabaseError(
                f"{self._options.name!r} cannot be read: {error}", where=where
            ) from error

    def _address(self) -> str:
        return f"{self._path.resolve().as_uri()}?mode=ro"

    def _rejected(self, reason: str) -> StatementError:
        if reason == "interrupted":
            reason = f"it took longer than {self._options.timeout:g} s and was stopped"
        return StatementError(
            f"{self._options.name!r} did not answer the statement: {reason}",
            hint="only reading is allowed, within the limits under retrieve.databases",
        )


def _age(path: Path) -> tuple[int, int]:
    """Time of change and size of a file; 0 if there is none (no write-ahead log)."""
    if path.name.endswith("-wal") and not path.is_file():
        return 0, 0
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=64)
def _digest(path: Path, changed: int, size: int) -> str:
    """Hash of a file with this time and size, empty for an empty file."""
    if not size:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_PLAIN = {16, 20, 21, 23, 700, 701}
"""Types whose values have a bounded size: bool, the integers, the floats. Others go as text."""

_LISTED_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type
FROM information_schema.columns
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
ORDER BY table_schema, table_name, ordinal_position
"""

_RIGHTS = ("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program")

_STRONGER = """
SELECT rolname FROM pg_catalog.pg_roles
WHERE (rolsuper OR rolname = ANY ($1)) AND pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
ORDER BY rolname = session_user DESC LIMIT 1
"""
"""A role with more rights than a reader needs that the user is or can become."""


class PostgresReader(DatabaseReader):
    """One connection per statement, in a read-only transaction that is always rolled back.

    The statement is sent as a subquery in parentheses by the extended protocol. So it is one
    statement by construction, and the server's grammar refuses a writing ``WITH`` and ``SELECT …
    INTO`` there; the transaction's first snapshot is taken before, after which the server does not
    allow making it writable. What may be read is what the role may read, so a role with more rights
    than a reader's is refused: functions could use them.
    """

    dialect = "PostgreSQL"

    def __init__(self, options: DatabaseOptions, address: str) -> None:
        self._options = options
        self._address = address

    def schema(self) -> tuple[Table, ...]:
        """Tables and views that the role may read; only the named ones, if any are named."""
        psycopg = require("psycopg", "pg", "reading PostgreSQL")
        with self._read_cursor() as cursor:
            try:
                cursor.execute(_LISTED_COLUMNS)
                rows = cursor.fetchall()
            except psycopg.Error as error:
                raise self._unreachable_error(error) from error
        named = self._options.tables
        tables = []
        for (schema, table), columns in groupby(rows, key=lambda row: (row[0], row[1])):
            name = table if schema == "public" else f"{schema}.{table}"
            if not named or name in named:
                tables.append(Table(name, tuple(Column(row[2], row[3]) for row in columns)))
        return tuple(tables)

    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one statement, within all limits."""
        psycopg = require("psycopg", "pg", "reading PostgreSQL")
        statement = statement.strip().rstrip(";")
        with self._read_cursor() as cursor:
            try:
                # Parameters, even none, make psycopg use the extended protocol.
                shape = f"SELECT * FROM (\n{statement}\n) AS ragwright_rows LIMIT 0"  # noqa: S608
                cursor.execute(shape, ())
                columns = [(column.name, column.type_code) for column in cursor.description or ()]
                bounded = _bounded_statement(statement, [kind for _, kind in columns])
                rows = cursor.stream(bounded, (CELL + 1, max_rows + 1))
                names = [name for name, _ in columns]
                return read_rows(rows, names, max_rows, self._options.max_characters)
            except psycopg.Error as error:
                raise self._rejected_error(error) from error

    @contextmanager
    def _read_cursor(self) -> Iterator[Any]:
        """A cursor in a read-only transaction with a time limit; always closed."""
        psycopg = require("psycopg", "pg", "reading PostgreSQL")
        limit = int(self._options.timeout * 1000)
        settings = {
            "statement_timeout": limit,
            "lock_timeout": limit,
            "idle_in_transaction_session_timeout": limit * 2 + 10_000,
            "standard_conforming_strings": "on",
            "max_parallel_workers_per_gather": 0,
        }
        try:
            connection = psycopg.connect(
                self._address,
                connect_timeout=10,
                tcp_user_timeout=limit + 10_000,
                application_name="ragwright",
                cursor_factory=psycopg.RawCursor,
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise self._unreachable_error(error) from error
        try:
            connection.read_only = True
            cursor = connection.cursor()
            try:
                for name, value in settings.items():
                    cursor.execute("SELECT pg_catalog.set_config($1, $2, true)", (name, str(value)))
                # no role that can do more than read tables, or become one that can
                cursor.execute(_STRONGER, (list(_RIGHTS),))
                if (stronger := cursor.fetchone()) is not None:
                    raise DatabaseError(
                        f"{self._options.name!r} is not asked: its user is the superuser or the "
                        f"role {stronger[0]!r}, or can become it",
                        where=f"retrieve.databases: {self._options.name}",
                        hint="name a role that may only read: CREATE ROLE ragwright_reader LOGIN "
                        "PASSWORD '…'; GRANT SELECT ON … TO ragwright_reader",
                    )
            except psycopg.Error as error:
                raise self._unreachable_error(error) from error
            yield cursor
        finally:
            connection.close()  # rolls back

    def _unreachable_error(self, error: Exception) -> DatabaseError:
        # The driver's message may repeat the address.
        reason = hide_secret(_error_first_line(error), self._address)
        return DatabaseError(
            f"{self._options.name!r} cannot be opened: {reason}",
            where=f"retrieve.databases: {self._options.name}",
        )

    def _rejected_error(self, error: Exception) -> StatementError:
        reason = _error_first_line(error)
        if "statement timeout" in reason:
            reason = f"it took longer than {self._options.timeout:g} s and was stopped"
        return StatementError(
            f"{self._options.name!r} did not answer the statement: {reason}",
            hint="only reading is allowed, within the limits under retrieve.databases",
        )


def _bounded_statement(statement: str, kinds: list[int]) -> str:
    """The statement as a subquery whose long values the server cuts before it sends them."""
    names = [f"c{number}" for number in range(1, len(kinds) + 1)]
    expressions = [
        name if kind in _PLAIN else f"pg_catalog.left(CAST({name} AS pg_catalog.text), $1)"
        for name, kind in zip(names, kinds, strict=True)
    ]
    # $1 appears once more, so that its type is known if no column is cut.
    return (
        f"SELECT {', '.join(expressions)} FROM (\n{statement}\n) "  # noqa: S608
        f"AS ragwright_rows({', '.join(names)}) WHERE $1::integer > 0 LIMIT $2::bigint"
    )


def _error_first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
