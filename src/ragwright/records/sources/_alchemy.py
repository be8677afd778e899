"""Databases through SQLAlchemy: a server-side cursor in a transaction that can only read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ...core import (
    ConfigError,
    DatabaseError,
    MissingExtraError,
    RecordsError,
    fill_address,
    hide_secret,
    require,
    suggest_name,
)
from .._seams import ArrowTable, LateModule, pa
from ..declared import SourceSpec
from ._batches import (
    EXACT,
    RowBatch,
    Watermark,
    WatermarkedSource,
    column_of,
    endless,
    kind_of,
    piece,
    source_name,
    text_of,
    type_of,
    watermark_value,
)

alchemy: Any = LateModule("sqlalchemy", "reading a database")
alchemy_errors: Any = LateModule("sqlalchemy.exc", "reading a database")


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
    message = hide_secret(lines[0] if lines else type(error).__name__, address)
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

    def _pieces(self, since: str) -> Iterator[RowBatch]:
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
                hint=suggest_name(column, names),
            )
        name = reading.quoted(column)
        like = reading.first(f"SELECT {name} FROM {inner} WHERE {name} IS NOT NULL")  # noqa: S608
        wanted = f"{name} >= {reading.marker} OR {name} IS NULL"
        lowest = watermark_value(since, since if like is None else like)
        return f"SELECT * FROM {inner} WHERE {wanted}", lowest  # noqa: S608


_ROWS = 2_000
"""Rows that are fetched at once."""

_READ_ONLY: Mapping[str, str] = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = ON",
}
"""Statements that make a connection of a dialect read-only, beside PostgreSQL's own option."""

_POSTGRES: Mapping[str, tuple[int, ...]] = {
    "bool": (16,),
    "long": (20, 21, 23, 26),
    "float": (700, 701),
    "date": (1082,),
    "time": (1114,),
    "moment": (1184,),
    "bytes": (17,),
}
"""Kind of a column -> numbers of PostgreSQL's types; all others are texts."""

_DATES = ("date", "time", "moment")

_DATE = re.compile(r"\d{4}-[^B]*$")
"""PostgreSQL's form of a date of the years 1 to 9999: others are longer, or end with BC."""

_CONNECTING: Mapping[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Connection settings of PostgreSQL where the address gives none: a host that is gone is noticed
within a minute, and texts of a database without an encoding are UTF-8 or refused."""


class AlchemyServer(Server):
    """The database at a SQLAlchemy URL; nothing is opened before :meth:`opened`.

    Raises:
        ConfigError: The address is none, or names a variable that is not set.
        MissingExtraError: SQLAlchemy or the driver is not installed.
        RecordsError: A SQLite file is not there.
    """

    def __init__(self, spec: SourceSpec, root: Path) -> None:
        self._spec = spec
        self._address = fill_address(spec.source, spec.place("source"))
        self._engine = self._new_engine(root)

    def _new_engine(self, root: Path) -> Any:
        address = self._address
        if address.startswith("postgres:"):
            address = "postgresql:" + address.removeprefix("postgres:")
        try:
            url = alchemy.engine.make_url(address)
        except (alchemy_errors.ArgumentError, ValueError) as error:
            raise ConfigError(
                "SQLAlchemy cannot read the address of the database",
                where=self._spec.place("source"),
                hint="for example postgresql+psycopg://user:${PGPASSWORD}@host/db, sqlite:///path",
            ) from error
        more: dict[str, Any] = {"poolclass": alchemy.pool.NullPool, "hide_parameters": True}
        dialect = url.get_backend_name()
        if dialect == "sqlite":
            url = url.set(database=str(sqlite_file(url.database or "", root, self._spec)))
        if dialect == "postgresql":
            more["json_deserializer"] = _as_written
            defaults = (
                _CONNECTING if "+" not in url.drivername or "psycopg" in url.drivername else {}
            )
            more["connect_args"] = {k: v for k, v in defaults.items() if k not in url.query}
        try:
            return alchemy.create_engine(url, **more)
        except alchemy_errors.NoSuchModuleError as error:
            raise ConfigError(
                f"SQLAlchemy does not support the database {url.drivername!r}",
                where=self._spec.place("source"),
                hint="for example postgresql+psycopg or sqlite; other databases need their "
                "dialect package",
            ) from error
        except ImportError as error:
            package = (error.name or str(error)).partition(".")[0]
            extra = "'ragwright[records,pg]'" if package.startswith("psycopg") else package
            raise MissingExtraError(
                f"reading {url.drivername} needs the package {package!r}, which is not installed",
                hint=f"pip install {extra}",
            ) from error

    @contextmanager
    def opened(self) -> Iterator[ReadOnlyConnection]:
        """Open a read-only transaction; it is always rolled back, and its connection closed."""
        fault = "cannot be opened"
        try:
            with self._engine.connect() as connection:
                fault = "cannot be read"
                options: dict[str, Any] = {"stream_results": True, "yield_per": _ROWS}
                dialect = connection.dialect.name
                if dialect == "postgresql":
                    options["postgresql_readonly"] = True
                connection = connection.execution_options(**options)
                if dialect in _READ_ONLY:
                    connection.exec_driver_sql(_READ_ONLY[dialect])
                yield _AlchemyReading(connection, self._spec)
        except UnicodeError as error:
            raise DatabaseError(
                f"the database has texts in another encoding: {error}",
                where=self._spec.place("source"),
                hint="set it: add client_encoding=latin1 to the address",
            ) from error
        except alchemy_errors.SQLAlchemyError as error:
            driver_error = getattr(error, "orig", None) or error
            todo = (
                "run it again when the database is available"
                if isinstance(error, alchemy_errors.OperationalError)
                else "test the query in a client of the database"
            )
            raise database_error(self._spec, fault, driver_error, self._address, todo) from error


class _AlchemyReading(ReadOnlyConnection):
    """One connection of SQLAlchemy."""

    marker = ":ragwright_since"

    def __init__(self, connection: Any, spec: SourceSpec) -> None:
        self._connection = connection
        self._spec = spec
        self._sqlite = connection.dialect.name == "sqlite"

    def quoted(self, name: str) -> str:
        """Quote a name as the dialect does."""
        return str(self._connection.dialect.identifier_preparer.quote_identifier(name))

    def _run(self, statement: str, parameter: Any = None) -> Any:
        # A colon in the user's query is not a parameter.
        marker, escaped = self.marker, statement.replace(":", r"\:")
        text = alchemy.text(escaped.replace(marker.replace(":", r"\:"), marker))
        if parameter is None:
            return self._connection.execute(text)
        # Without a type SQLAlchemy casts nothing, and the driver sends the value as it is.
        bound = alchemy.bindparam("ragwright_since", parameter, alchemy.types.NullType())
        return self._connection.execute(text.bindparams(bound))

    def names(self, statement: str) -> Sequence[str]:
        """Return the names in the cursor's description."""
        with self._run(statement) as result:
            return list(result.keys())

    def first(self, statement: str) -> Any:
        """Fetch one row."""
        with self._naming(statement), self._run(statement) as result:
            row = result.fetchone()
            return None if row is None else row[0]

    def tables(self, query: str, statement: str, parameter: Any = None) -> Iterator[ArrowTable]:
        """Yield rows; types are PostgreSQL's or SQLite's, else the first rows decide."""
        types = self._sqlite_types(query) if self._sqlite else None
        with self._naming(statement, parameter), self._run(statement, parameter) as result:
            names = list(result.keys())
            types = types or self._postgres_types(result)
            for rows in result.partitions(_ROWS):
                values = list(zip(*rows, strict=True))
                types = types or [type_of(map(kind_of, column)) for column in values]
                columns = map(self._column, names, values, types)
                yield pa.Table.from_arrays(list(columns), names=names)

    @contextmanager
    def _naming(self, statement: str, parameter: Any = None) -> Iterator[None]:
        """Name column and row of a date of PostgreSQL that no calendar has.

        Raises:
            RecordsError: It is in place of the error of reading.
        """
        try:
            yield
        except alchemy_errors.DataError as error:
            # With a code it is the server's word, and the transaction takes no more statements.
            own = getattr(error.orig, "sqlstate", None) is None
            if own and self._connection.dialect.driver == "psycopg":
                with suppress(alchemy_errors.SQLAlchemyError):
                    self._find_endless(statement, parameter)
            raise

    def _find_endless(self, statement: str, parameter: Any) -> None:
        """Read again with dates as texts: the driver does not say which one it cannot read."""
        texts = require("psycopg.types.string", "pg", "reading PostgreSQL").TextLoader
        adapters = self._connection.connection.driver_connection.adapters
        numbers = [n for kind in _DATES for n in _POSTGRES[kind]]
        for number in numbers:
            adapters.register_loader(number, texts)
        with self._run(statement, parameter) as result:
            names = list(result.keys())
            codes = [column[1] for column in result.cursor.description]
            dates = [at for at, code in enumerate(codes) if code in numbers]
            for number, row in enumerate(result, 1):
                for at in dates:
                    if row[at] is not None and not _DATE.match(row[at]):
                        raise endless(names[at], row[at], number)

    def _column(self, name: str, values: Sequence[Any], kind: Any) -> ArrowTable:
        try:
            return column_of(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise RecordsError(
                f"the column {name!r} has other types of values than in the first rows ({kind}): "
                f"{error}",
                where=self._spec.place("query"),
                hint=f"write CAST({name} AS …) in the query, so that all have one type",
            ) from error

    def _postgres_types(self, result: Any) -> list[Any] | None:
        if self._connection.dialect.name != "postgresql":
            return None
        kinds = {number: kind for kind, numbers in _POSTGRES.items() for number in numbers}
        codes = [column[1] for column in result.cursor.description]
        if not all(isinstance(code, int) for code in codes):
            return None
        return [type_of([kinds.get(code, "text")]) for code in codes]

    def _sqlite_types(self, query: str) -> list[Any]:
        """Return types that hold the values of each column: in SQLite every value has its own."""
        self._connection.exec_driver_sql("BEGIN")
        names = self.names(f"SELECT * FROM (\n{query}) WHERE 1 = 0")  # noqa: S608 - the user's own
        types = []
        for name in dict.fromkeys(names):
            column = self.quoted(name)
            whole = f"CASE typeof({column}) WHEN 'integer' THEN {column} END"
            select = f"SELECT group_concat(DISTINCT typeof({column})), min({whole}), max({whole})"
            with self._run(f"{select} FROM (\n{query})") as result:
                kinds, least, most = result.fetchone()
            types.append(type_of(_sqlite_kinds(kinds or "", least or 0, most or 0)))
        return types if len(types) == len(names) else []


def _sqlite_kinds(kinds: str, least: int, most: int) -> Iterator[str]:
    words = {"real": "float", "text": "text", "blob": "bytes", "null": ""}
    whole = "int" if -EXACT < least <= most < EXACT else "long"
    for kind in filter(None, kinds.split(",")):
        yield words.get(kind, whole)


def _as_written(value: Any) -> str | None:
    """Return JSON of a database as text."""
    return bytes(value).decode("utf-8") if isinstance(value, bytes | memoryview) else text_of(value)


def sqlite_file(name: str, root: Path, spec: SourceSpec) -> Path:
    """Check that a SQLite file exists: SQLite would create an empty one.

    Raises:
        RecordsError: It is not there.
    """
    path = Path(name).expanduser()
    path = path if path.is_absolute() else root / path
    if not name or not path.is_file():
        raise RecordsError(
            f"the SQLite file {name!r} does not exist",
            where=spec.place("source"),
            hint=f"looked for {path}; absolute paths have four slashes: sqlite:////data/shop.db",
        )
    return path
