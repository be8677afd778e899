"""Rows of a database: the user's query, only what is new of it, a few thousand rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...core import DatabaseError, RecordsError, near, without_secret
from .._seams import ArrowTable
from ..declared import SourceSpec
from ._batches import Piece, piece
from ._file import source_name
from ._watermark import Watermark, WatermarkedSource, watermark_value


class ReadOnlyConnection(ABC):
    """One open connection to a database, on which nothing can be written.

    Attributes:
        marker: What stands for the one parameter of a statement.
    """

    marker = "?"

    def quoted(self, name: str) -> str:
        """Quote a column's name as an identifier."""
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def names(self, statement: str) -> Sequence[str]:
        """Return the column names of a statement that returns no rows."""

    @abstractmethod
    def first(self, statement: str) -> Any:
        """Return the first value of the first row; None if there is no row."""

    @abstractmethod
    def tables(self, query: str, statement: str, parameter: Any = None) -> Iterator[ArrowTable]:
        """Yield rows, some thousands at a time, all tables with the same types.

        Args:
            query: The whole query, which types may be learned from.
            statement: What gives the rows: the query, or a part of its rows.
            parameter: Value of the marker in the statement, None where there is none.
        """


class Server(ABC):
    """A database that can be opened."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[ReadOnlyConnection]:
        """Open a connection for one reading.

        Raises:
            DatabaseError: It cannot be opened; inside, it rejects a statement or stops
                answering.
        """


def database_error(
    spec: SourceSpec,
    fault: str,
    error: BaseException,
    address: str,
    todo: str = "run it again when the database is available",
) -> DatabaseError:
    """Return the error for a database that cannot be opened or read, without its password."""
    lines = str(error).strip().splitlines()
    message = without_secret(lines[0] if lines else type(error).__name__, address)
    return DatabaseError(
        f"the database {fault}: {message}",
        where=spec.place("source" if fault == "cannot be opened" else "query"),
        hint=f"nothing was written; {todo}",
    )


class SqlSource(WatermarkedSource):
    """The rows of one query.

    Args:
        spec: What source.yaml says.
        server: The database.
    """

    def __init__(self, spec: SourceSpec, server: Server) -> None:
        if not spec.query.strip():
            raise RecordsError(
                "a database needs a query, but there is none",
                where=spec.place("source"),
                hint="write query: SELECT … FROM …",
            )
        self._spec = spec
        self._server = server
        super().__init__()

    def stamp(self) -> str:
        """Return an empty text: a query may return other rows at any time."""
        return ""

    def _pieces(self, since: str) -> Iterator[Piece]:
        column = source_name(self._spec, self._spec.watermark)
        query = self._spec.query.strip().rstrip(";").rstrip() + "\n"  # a comment may end it
        self._watermark = Watermark(since)
        row = 1
        with self._server.opened() as reading:
            statement, parameter = query, None
            if column and since:
                statement, parameter = self._newer(reading, query, column, since)
            for table in reading.tables(query, statement, parameter):
                rows = piece(table, "query", row)
                row += table.num_rows
                if column in table.schema.names:
                    self._watermark.wanted(table.column(column))
                yield rows

    def _newer(
        self, reading: ReadOnlyConnection, query: str, column: str, since: str
    ) -> tuple[str, Any]:
        """Return the query for rows at or above a watermark, and its parameter.

        Raises:
            RecordsError: The query has no such column, or the watermark does not fit it.
        """
        inner = f"(\n{query}) ragwright_rows"
        names = reading.names(f"SELECT * FROM {inner} WHERE 1 = 0")  # noqa: S608 - the user's own
        if column not in names:
            raise RecordsError(
                f"watermark: the query does not return the column {column!r}",
                where=self._spec.place("watermark"),
                hint=near(column, names),
            )
        name = reading.quoted(column)
        like = reading.first(f"SELECT {name} FROM {inner} WHERE {name} IS NOT NULL")  # noqa: S608
        wanted = f"{name} >= {reading.marker} OR {name} IS NULL"
        lowest = watermark_value(since, since if like is None else like)
        return f"SELECT * FROM {inner} WHERE {wanted}", lowest  # noqa: S608
