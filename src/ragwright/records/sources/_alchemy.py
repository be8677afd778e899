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
from .._seams import ArrowTable, LateModule, pa
from ..declared import SourceSpec
from ._batches import (
    EXACT,
    RowBatch,
    Watermark,
    WatermarkedSource,
    column_of,
    kind_of,
    piece,
    source_name,
    text_of,
    type_of,
    watermark_value,
)

alchemy: Any = LateModule("sqlalchemy", "reading a database")
alchemy_errors: Any = LateModule("sqlalchemy.exc", "reading a database")


class SqlSource(WatermarkedSource):
    """The rows of one query.

    Args:
        spec: What source.yaml says.
        root: Folder that a relative path of SQLite starts from.

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
        super().__init__()

    def stamp(self) -> str:
        """Return an empty text: a query may return other rows at any time."""
        return ""

    def _pieces(self, since: str) -> Iterator[RowBatch]:
        column = source_name(self._spec, self._spec.watermark)
        query = self._spec.query.strip().rstrip(";").rstrip() + "\n"  # a comment may end it
        self._watermark = Watermark(since)
        row = 1
        with self._open() as reading:
            statement, parameter = query, None
            if column and since:
                statement, parameter = self._newer(reading, query, column, since)
            for table in reading.tables(query, statement, parameter):
                rows = piece(table, "query", row)
                row += table.num_rows
                if column in table.schema.names:
                    self._watermark.wanted(table.column(column))
                yield rows

    def _newer(self, reading: _Reading, query: str, column: str, since: str) -> tuple[str, Any]:
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
                yield _Reading(connection, self._spec)
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
            elif isinstance(error, alchemy_errors.DataError) and not _is_said_by_server(error):
                todo = _DATES
            raise DatabaseError(
                f"the database {fault}: {message}",
                where=self._spec.place("source" if fault == "cannot be opened" else "query"),
                hint=f"nothing was written; {todo}",
            ) from error


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


def _is_said_by_server(error: Any) -> bool:
    """True if an error has a code of the server; without one it is the driver's."""
    return getattr(error.orig, "sqlstate", None) is not None


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

    def __init__(self, connection: Any, spec: SourceSpec) -> None:
        self._connection = connection
        self._spec = spec
        self._sqlite = connection.dialect.name == "sqlite"

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

    def tables(self, query: str, statement: str, parameter: Any = None) -> Iterator[ArrowTable]:
        """Yield rows; types are PostgreSQL's or SQLite's, else the first rows decide."""
        types = self._sqlite_types(query) if self._sqlite else None
        with self._run(statement, parameter) as result:
            names = list(result.keys())
            types = types or self._postgres_types(result)
            for rows in result.partitions(_ROWS):
                values = list(zip(*rows, strict=True))
                types = types or [type_of(map(kind_of, column)) for column in values]
                columns = map(self._column, names, values, types)
                yield pa.Table.from_arrays(list(columns), names=names)

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
