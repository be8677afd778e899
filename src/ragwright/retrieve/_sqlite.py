"""Reads a SQLite file so that nothing can be written."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core import DatabaseError, StatementError
from ..flow import SqlReply
from . import _sqlite_child
from ._options import DatabaseOptions
from ._tables import CELL, Column, DatabaseReader, Table, read_rows

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
        if not self._options.examples:
            return ()
        quoted = f'"{name.replace(chr(34), chr(34) * 2)}"'
        source = f'"{table.replace(chr(34), chr(34) * 2)}"'
        try:
            examples = connection.execute(
                f"SELECT DISTINCT {quoted} FROM (SELECT {quoted} FROM {source} "  # noqa: S608
                f"LIMIT {_SAMPLE}) WHERE {quoted} IS NOT NULL LIMIT ?",
                (self._options.examples,),
            )
            return tuple(str(value)[:60] for (value,) in examples)
        except sqlite3.OperationalError:
            return ()

    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one statement, within all limits."""
        return self._reply(statement, max_rows, {"tables": list(self._options.tables)})

    def _reply(self, statement: str, max_rows: int, readable: Mapping[str, Any]) -> SqlReply:
        """Rows of a statement from the child process, which is told what may be read.

        Raises:
            StatementError: It was rejected, or took too long.
            DatabaseError: A table that it depends on has changed.
        """
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
        """Columns, rows and end from the child process.

        Raises:
            StatementError: It was rejected, or took too long.
        """
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
