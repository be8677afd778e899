"""Databases through ADBC: drivers that give Arrow batches themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...core import (
    MissingExtraError,
    RecordsError,
    filled_address,
    require,
)
from .._seams import ArrowTable
from ..declared import SourceSpec
from ._alchemy import sqlite_file
from ._sql import ReadOnlyConnection, Server, database_error
from ._values import endless, text_of


class AdbcServer(Server):
    """The database at ``adbc+NAME://…``, through the package ``adbc_driver_NAME``.

    Raises:
        MissingExtraError: The package is not installed.
        ConfigError: The address names a variable that is not set.
        RecordsError: A SQLite file is not there.
    """

    def __init__(self, spec: SourceSpec, root: Path) -> None:
        self._spec = spec
        self._address = filled_address(spec.source).removeprefix("adbc+")
        self._name, _, rest = self._address.partition("://")
        self._uri = self._address
        try:
            self._driver = importlib.import_module(f"adbc_driver_{self._name}.dbapi")
        except ImportError as error:
            raise MissingExtraError(
                f"reading adbc+{self._name} needs the package adbc-driver-{self._name}, which is "
                "not installed",
                hint=f"pip install adbc-driver-manager adbc-driver-{self._name}",
            ) from error
        if self._name == "sqlite":
            path = sqlite_file(rest.removeprefix("/"), root, spec)
            self._uri = f"{path.absolute().as_uri()}?mode=ro"

    @contextmanager
    def opened(self) -> Iterator[ReadOnlyConnection]:
        """Open a connection on which nothing is committed."""
        arrow = require("pyarrow", "records", "reading records")
        fault = "cannot be opened"
        try:
            with closing(self._driver.connect(self._uri)) as connection:
                fault = "cannot be read"
                if self._name == "postgresql":
                    with closing(connection.cursor()) as cursor:
                        cursor.execute("SET TRANSACTION READ ONLY")
                yield _AdbcReading(connection, self._name, self._spec)
        except (self._driver.Error, arrow.ArrowException, OSError) as error:
            raise database_error(self._spec, fault, error, self._address) from error


class _AdbcReading(ReadOnlyConnection):
    """One connection of an ADBC driver."""

    def __init__(self, connection: Any, name: str, spec: SourceSpec) -> None:
        self._connection = connection
        self._spec = spec
        self.marker = "$1" if name == "postgresql" else "?"

    def names(self, statement: str) -> Sequence[str]:
        """Return the names in the cursor's description."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            return [str(column[0]) for column in cursor.description]

    def first(self, statement: str) -> Any:
        """Fetch one row."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            try:
                row = cursor.fetchone()
            except OverflowError as error:
                raise endless(str(cursor.description[0][0]), "infinity", 1) from error
            return None if row is None else row[0]

    def tables(self, query: str, statement: str, parameter: Any = None) -> Iterator[ArrowTable]:
        """Yield the driver's batches; types that only Arrow has a name for become texts."""
        pa = require("pyarrow", "records", "reading records")
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, None if parameter is None else (parameter,))
            rows = 0
            for batch in cursor.fetch_record_batch():
                names = batch.schema.names
                columns = []
                for name, column in zip(names, batch.columns, strict=True):
                    _check_dates(name, column, rows)
                    columns.append(self._standard_column(name, column))
                rows += batch.num_rows
                yield pa.Table.from_arrays(columns, names=names)

    def _standard_column(self, name: str, column: ArrowTable) -> ArrowTable:
        """Convert a column to a plain type.

        Raises:
            RecordsError: The driver gives the database's own bytes of it.
        """
        pa = require("pyarrow", "records", "reading records")
        types, kind = pa.types, column.type
        if isinstance(kind, pa.BaseExtensionType):
            storage = kind.storage_type
            if types.is_binary(storage):
                raise RecordsError(
                    f"the column {name!r} is of a type that ADBC cannot read ({kind})",
                    where=self._spec.place("query"),
                    hint=f"write CAST({name} AS text) in the query",
                )
            if types.is_string(storage):
                return column.storage
        elif types.is_integer(kind):
            return column.cast(pa.int64())
        elif types.is_float32(kind):  # by its text: 1.1 stays 1.1
            return column.cast(pa.string()).cast(pa.float64())
        elif not (types.is_nested(kind) or types.is_time(kind) or types.is_interval(kind)):
            column.validate(full=True)  # texts may hold bytes that are no UTF-8
            return column
        return pa.array([text_of(value) for value in column.to_pylist()], pa.string())


def _check_dates(name: str, column: ArrowTable, before: int) -> None:
    """Refuse dates outside the years 1 to 9999.

    Args:
        name: Of the column.
        column: Its values.
        before: Rows that were read before.

    Raises:
        RecordsError: One is not; infinity comes as the last number that there is.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # none of them can lie outside
        return
    zone = UTC if getattr(kind, "tz", None) else None
    least = pa.scalar(datetime.min.replace(tzinfo=zone), kind)
    most = pa.scalar(datetime.max.replace(tzinfo=zone), kind)
    outside = compute.or_(compute.less(column, least), compute.greater(column, most))
    if compute.any(outside).as_py():
        at = compute.index(outside, True).as_py()
        value = "infinity" if compute.greater(column[at], most).as_py() else "-infinity"
        raise endless(name, value, before + at + 1)
