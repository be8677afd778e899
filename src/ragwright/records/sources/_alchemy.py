"""Databases through SQLAlchemy: a server-side cursor in a transaction that can only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core import (
    ConfigError,
    DatabaseError,
    MissingExtraError,
    RecordsError,
    fill_address,
    hide_secret,
    suggest_name,
)
from .._seams import LateModule, pa
from ..declared import SourceSpec
from ._batches import (
    ROWS,
    RowBatch,
    RowSource,
    column_of,
    source_name,
    text_of,
    watermark_text,
    watermark_value,
)

alchemy: Any = LateModule("sqlalchemy", "reading a database")
alchemy_errors: Any = LateModule("sqlalchemy.exc", "reading a database")


class SqlSource(RowSource):
    """The rows of one query.

    Raises:
        ConfigError: The address is none, or names a variable that is not set.
        MissingExtraError: SQLAlchemy or the driver is not installed.
        RecordsError: The query is missing, or a SQLite file is not there.
    """

    def __init__(self, spec: SourceSpec, root: Path) -> None:
        self._spec = spec
        self._address = fill_address(spec.source, spec.place("source"))
        self._engine = self._new_engine(root)
        if not spec.query.strip():
            raise RecordsError(
                "a database needs a query, but there is none",
                where=spec.place("source"),
                hint="write query: SELECT … FROM …",
            )

    def stamp(self) -> str:
        """Return an empty text: a query may return other rows at any time."""
        return ""

    def batches(self, since: str = "") -> Iterator[RowBatch]:
        """Yield the rows of the query, those at or above a watermark alone where it is named."""
        column = source_name(self._spec, self._spec.watermark)
        query = self._spec.query.strip().rstrip(";").rstrip() + "\n"  # a comment may end it
        self.reached = since
        highest, row = None, 1
        with self._open() as reading:
            statement, parameter = query, None
            if column and since:
                statement, parameter = self._newer(reading, query, column, since)
                highest = parameter
            for names, columns in reading.columns(statement, parameter):
                rows = pa.Table.from_arrays(list(map(column_of, columns)), names=names)
                yield RowBatch(rows, "query", range(row, row + rows.num_rows))
                row += rows.num_rows
                if column in names:
                    seen = [v for v in (highest, *columns[names.index(column)]) if v is not None]
                    highest = self._highest(seen)
                    self.reached = since if highest is None else watermark_text(highest)

    def _highest(self, values: Sequence[Any]) -> Any:
        try:
            return max(values, default=None)
        except TypeError as error:
            raise RecordsError(
                f"the watermark has values that do not compare: {error}",
                where=self._spec.place("watermark"),
                hint="convert the column to one type in the query",
            ) from error

    def _newer(self, reading: _Reading, query: str, column: str, since: str) -> tuple[str, Any]:
        """Return the query for rows at or above a watermark, and its parameter."""
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
        wanted = f"{name} >= {_MARKER} OR {name} IS NULL"
        lowest = watermark_value(since, since if like is None else like)
        return f"SELECT * FROM {inner} WHERE {wanted}", lowest  # noqa: S608

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
    def _open(self) -> Iterator[_Reading]:
        fault = "cannot be opened"
        try:
            with self._engine.connect() as connection:
                fault = "cannot be read"
                options: dict[str, Any] = {"stream_results": True, "yield_per": ROWS}
                dialect = connection.dialect.name
                if dialect == "postgresql":
                    options["postgresql_readonly"] = True
                connection = connection.execution_options(**options)
                if dialect in _READ_ONLY:
                    connection.exec_driver_sql(_READ_ONLY[dialect])
                yield _Reading(connection)
        except UnicodeError as error:
            raise DatabaseError(
                f"the database has texts in another encoding: {error}",
                where=self._spec.place("source"),
                hint="set it: add client_encoding=latin1 to the address",
            ) from error
        except alchemy_errors.SQLAlchemyError as error:
            said = str(getattr(error, "orig", None) or error).strip().splitlines()
            message = hide_secret(said[0] if said else type(error).__name__, self._address)
            todo = "test the query in a client of the database"
            if isinstance(error, alchemy_errors.OperationalError):
                todo = "run it again when the database is available"
            elif isinstance(error, alchemy_errors.DataError):
                # without a code of the server it is the driver's
                todo = todo if getattr(error.orig, "sqlstate", None) else _DATES
            raise DatabaseError(
                f"the database {fault}: {message}",
                where=self._spec.place("source" if fault == "cannot be opened" else "query"),
                hint=f"nothing was written; {todo}",
            ) from error


_READ_ONLY: Mapping[str, str] = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = ON",
}
"""Statements that make a connection of a dialect read-only, beside PostgreSQL's own option."""


_DATES = (
    "for dates outside of the years 1 to 9999 write NULLIF(column, 'infinity') AS column, or "
    "CAST(column AS text) AS column, in the query"
)

_CONNECTING: Mapping[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Connection settings of PostgreSQL where the address gives none: a host that is gone is noticed
within a minute, and texts of a database without an encoding are UTF-8 or refused."""


_MARKER = ":ragwright_since"
"""What stands for the one parameter of a statement."""


class _Reading:
    """One open connection to a database, on which nothing can be written."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def quoted(self, name: str) -> str:
        """Quote a name as the dialect does."""
        return str(self._connection.dialect.identifier_preparer.quote_identifier(name))

    def _run(self, statement: str, parameter: Any = None) -> Any:
        # A colon in the user's query is not a parameter.
        escaped = statement.replace(":", r"\:")
        text = alchemy.text(escaped.replace(rf"\{_MARKER}", _MARKER))
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
        with self._run(statement) as result:
            row = result.fetchone()
            return None if row is None else row[0]

    def columns(
        self, statement: str, parameter: Any = None
    ) -> Iterator[tuple[list[str], list[Sequence[Any]]]]:
        """Yield names and values of columns, some thousand rows at a time."""
        with self._run(statement, parameter) as result:
            names = list(result.keys())
            for rows in result.partitions(ROWS):
                yield names, list(zip(*rows, strict=True))


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
            f"no such file: {name}",
            where=spec.place("source"),
            hint=f"looked for {path}; absolute paths have four slashes: sqlite:////data/shop.db",
        )
    return path
