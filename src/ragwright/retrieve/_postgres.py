"""Reads a PostgreSQL database so that nothing can be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from ..core import DatabaseError, StatementError, hide_secret, require
from ..flow import SqlReply
from ._options import DatabaseOptions
from ._tables import CELL, Column, DatabaseReader, Table, read_rows

_PLAIN = {16, 20, 21, 23, 700, 701}
"""Types whose values have a bounded size: bool, the integers, the floats. Others go as text."""

_COLUMNS = """
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

_SAMPLE = 1_000


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
                cursor.execute(_COLUMNS)
                return tuple(self._tables_of(cursor, cursor.fetchall()))
            except psycopg.Error as error:
                raise self._unreachable_error(error) from error

    def _tables_of(self, cursor: Any, rows: Sequence[Any]) -> Iterator[Table]:
        for (schema, table), column_rows in groupby(rows, key=lambda row: (row[0], row[1])):
            name = table if schema == "public" else f"{schema}.{table}"
            if self._options.tables and name not in self._options.tables:
                continue
            columns = [
                Column(row[2], row[3], self._column_examples(cursor, schema, table, row[2]))
                for row in column_rows
            ]
            yield Table(name, tuple(columns))

    def _column_examples(
        self, cursor: Any, schema: str, table: str, column: str
    ) -> tuple[str, ...]:
        if not self._options.examples:
            return ()
        sql = require("psycopg.sql", "pg", "reading PostgreSQL")
        query = sql.SQL(
            "SELECT DISTINCT left({column}::text, 60) FROM (SELECT {column} FROM {table} "
            "LIMIT {sample}) AS sample WHERE {column} IS NOT NULL ORDER BY 1 LIMIT {most}"
        ).format(
            column=sql.Identifier(column),
            table=sql.Identifier(schema, table),
            sample=_SAMPLE,
            most=self._options.examples,
        )
        cursor.execute(query)
        return tuple(str(value) for (value,) in cursor.fetchall())

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
                self._refuse_rights(cursor)
            except psycopg.Error as error:
                raise self._unreachable_error(error) from error
            yield cursor
        finally:
            connection.close()  # rolls back

    def _refuse_rights(self, cursor: Any) -> None:
        """Refuse a role that can do more than read tables, or become one that can.

        Raises:
            DatabaseError: It is a superuser, may use files or programs of the server, or belongs to
                such a role.
        """
        cursor.execute(_STRONGER, (list(_RIGHTS),))
        if (stronger := cursor.fetchone()) is not None:
            raise DatabaseError(
                f"{self._options.name!r} is not asked: its user is the superuser or the role "
                f"{stronger[0]!r}, or can become it",
                where=f"retrieve.databases: {self._options.name}",
                hint="name a role that may only read: CREATE ROLE ragwright_reader LOGIN PASSWORD "
                "'…'; GRANT SELECT ON … TO ragwright_reader",
            )

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
