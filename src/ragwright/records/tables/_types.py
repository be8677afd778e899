"""Arrow types and rows as Delta tables have them.

Delta has no unsigned integers, no durations, no times of day and no units of time but
microseconds: integers widen, times and durations become text in ISO 8601, as in the exports.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...core import (
    SchemaVersionError,
    SnapshotGoneError,
    StoreError,
    StoreFullError,
    canonical_json,
)
from ...ledger import file_error
from .._seams import TABLES, ArrowTable, TableName, compute, pa

_DECIMAL_DIGITS = 38
"""Most digits of a decimal number in Delta."""

_LARGEST = 2**63 - 1
"""Largest whole number that Delta holds as one."""


def delta_rows(rows: ArrowTable) -> ArrowTable:
    """Rows with types that Delta has; columns that are null throughout stay ``null``."""
    kinds = [_stored(column.type) for column in rows.schema]
    for at, column in enumerate(rows.schema):
        if (
            pa.types.is_uint64(column.type)
            and int(compute.max(rows.column(at)).as_py() or 0) <= _LARGEST
        ):
            kinds[at] = pa.int64()
    schema = pa.schema(list(zip(rows.schema.names, kinds, strict=True)))
    return rows if rows.schema.equals(schema) else fit_rows(readable(rows, digits=False), schema)


def _stored(kind: ArrowTable) -> ArrowTable:
    """The type in our files for values of an Arrow type."""
    return kind if pa.types.is_null(kind) else _kind(kind)


def delta_schema(schema: ArrowTable) -> ArrowTable:
    """The columns that a Delta table has: those that are not null throughout, with its types."""
    return pa.schema(
        [
            (column.name, _kind(column.type))
            for column in schema
            if not pa.types.is_null(column.type)
        ]
    )


def join_schemas(schemas: Iterable[ArrowTable]) -> ArrowTable:
    """The Arrow schema of files read as one table.

    Columns stand in the order in which they first appear. Types that widen into one another do
    (integers into wider ones and into fractions, which round beyond 2**53; what is all null into
    anything); others become text.
    """
    kinds: dict[str, ArrowTable] = {}
    for schema in schemas:
        for column in schema:
            stored = _stored(column.type)
            kind: ArrowTable = kinds.setdefault(column.name, stored)
            if not kind.equals(stored):
                joined = _common_type(kind, stored)
                kinds[column.name] = pa.string() if joined is None else _kind(joined)
    return pa.schema(list(kinds.items()))


def fit_rows(rows: ArrowTable, schema: ArrowTable) -> ArrowTable:
    """Rows with exactly the columns of a schema; those that they lack are null."""
    columns = []
    for column in schema:
        if column.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, column.type))
            continue
        values = rows.column(column.name)
        if not values.type.equals(column.type):
            if _is_text(column.type) and not _is_text(values.type):
                values = cast_text(values)
            values = values.cast(column.type, safe=False)
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema)


def _common_type(first: ArrowTable, second: ArrowTable) -> ArrowTable | None:
    """The type that holds values of both; None where only text does."""
    first, second = (k.value_type if pa.types.is_dictionary(k) else k for k in (first, second))
    pair = (first, second)
    if all(map(pa.types.is_timestamp, pair)) and first.tz == second.tz:
        return pa.timestamp("us", first.tz)  # the unit that loses no date of a calendar
    if any(map(_is_bytes, pair)) and not all(map(_is_bytes, pair)):
        return second if pa.types.is_null(first) else first if pa.types.is_null(second) else None
    if any(map(pa.types.is_uint64, pair)) and any(map(pa.types.is_signed_integer, pair)):
        return None
    try:
        return pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        ).types[0]
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def _is_bytes(kind: ArrowTable) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: ArrowTable) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _kind(kind: ArrowTable) -> ArrowTable:
    """The type in Delta for values of an Arrow type; text where it has none."""
    types = pa.types
    widened = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
    }
    if kind in widened:
        return widened[kind]
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_decimal(kind):
        fits = kind.precision <= _DECIMAL_DIGITS and kind.scale >= 0
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_nested(kind):
        return _nested(kind)
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return kind if plain or types.is_date32(kind) else pa.string()


def _nested(kind: ArrowTable) -> ArrowTable:
    """Lists and records with the types of Delta in them; text where Arrow converts none of it."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = pa.list_(_kind(kind.value_type))
    elif types.is_struct(kind):
        inner = pa.struct([(field.name, _kind(field.type)) for field in kind])
    else:
        return pa.string()
    if any(map(types.is_duration, (kind.field(at).type for at in range(kind.num_fields)))):
        return pa.string()  # Arrow would make numbers of them
    try:
        pa.array([], kind).cast(inner)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.string()
    return inner


def cast_text(values: ArrowTable) -> ArrowTable:
    """Values as text; lists and records as JSON."""
    kind = values.type
    if pa.types.is_nested(kind):
        texts = [
            None if value is None else json.dumps(value, ensure_ascii=False, default=iso_text)
            for value in values.to_pylist()
        ]
        return pa.array(texts, pa.large_string())
    if _is_bytes(kind):
        return pa.array(
            [
                None if value is None else value.decode("utf-8", "replace")
                for value in values.to_pylist()
            ],
            pa.large_string(),
        )
    return values.cast(pa.large_string())


def readable(rows: ArrowTable, *, digits: bool = True) -> ArrowTable:
    """Rows whose durations are texts, and with ``digits`` bytes too, the same in every export."""
    types = pa.types
    for at, column in enumerate(rows.schema):
        kind = column.type
        values = rows.column(at)
        if types.is_duration(kind):
            texts = [_duration(value, kind.unit) for value in values.cast(pa.int64()).to_pylist()]
        elif digits and _is_binary(kind):
            texts = [None if value is None else value.hex() for value in values.to_pylist()]
        elif types.is_interval(kind):
            texts = [None if value is None else iso_text(value) for value in values.to_pylist()]
        else:
            continue
        rows = rows.set_column(at, column.name, pa.array(texts, pa.large_string()))
    return rows


def _is_binary(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def _duration(value: int | None, unit: str) -> str | None:
    """A count of seconds or of their parts as ISO 8601 has it: ``P1DT2H0M3.5S``."""
    if value is None:
        return None
    parts = 10 ** _DIGITS[unit]
    whole, fraction = divmod(abs(value), parts)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    rest = f".{fraction:0{_DIGITS[unit]}d}".rstrip("0") if fraction else ""
    return f"{'-' * (value < 0)}P{days}DT{hours}H{minutes}M{seconds}{rest}S"


_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Unit of a duration -> digits behind its seconds."""


def iso_text(value: Any) -> str:
    """Return a value without a JSON type as text: times in ISO 8601, bytes as digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta):
        return str(_duration(value // timedelta(microseconds=1), "us"))
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


SCHEMA_VERSION = 2

MANIFESTS = "manifests"

_NAME = re.compile(r"(\d{8,})\.json")


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in one version.

    Attributes:
        delta: Version of its Delta table; -1 before the first commit.
        rows: Its rows.
        schema: Name -> Arrow type of its columns, in order. Columns that are null in every row
            have the type ``null``, and are not in the Delta table.
    """

    delta: int = -1
    rows: int = 0
    schema: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of all tables.

    Attributes:
        version: Its number; 0 stands for no tables yet.
        created: When it was made, ISO 8601 in UTC.
        note: Note for users.
        lineage: What it was made from: fingerprints and facts of the refresh.
        tables: Every table, also those without rows.
    """

    version: int = 0
    created: str = ""
    note: str = ""
    lineage: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[TableName, TableState] = field(
        default_factory=lambda: {table: TableState() for table in TABLES}
    )

    @property
    def rows(self) -> dict[TableName, int]:
        """Number of rows of every table."""
        return {table: state.rows for table, state in self.tables.items()}


def versions(folder: Path) -> list[int]:
    """Numbers of the versions there are, ascending."""
    try:
        names = os.listdir(folder / MANIFESTS)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_manifest(folder: Path, version: int) -> Manifest:
    """One version.

    Raises:
        SnapshotGoneError: It is not kept, or never was.
        SchemaVersionError: Another version of ragwright wrote it.
        StoreError: Its file is damaged.
    """
    path = _path(folder, version)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise make_gone_error(folder, version) from None
    with _damage_named(path, version):
        content: dict[str, Any] = json.loads(text)
        schema = int(content["schema_version"])
    if schema != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the tables have schema version {schema}; this ragwright reads {SCHEMA_VERSION}",
            where=str(path),
            hint=f"move {folder} away, then run: ragwright records refresh",
        )
    with _damage_named(path, version):
        tables = {
            table: TableState(int(state["delta"]), int(state["rows"]), dict(state["schema"]))
            for table, state in content["tables"].items()
        }
        return Manifest(
            int(content["version"]),
            content["created"],
            content["note"],
            content["lineage"],
            {table: tables.get(table, TableState()) for table in TABLES},
        )


@contextmanager
def _damage_named(path: Path, version: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(
            f"the manifest of version {version} is damaged: {error!r}",
            where=str(path),
            hint="restore it from a backup, or delete it to return to the version before it",
        ) from error


def make_gone_error(folder: Path, version: int) -> SnapshotGoneError:
    """The error for a missing version."""
    there = versions(folder)
    return SnapshotGoneError(
        f"version {version} of the tables of records does not exist",
        where=str(folder),
        hint=f"available versions: {there[0]} to {there[-1]}"
        if there
        else "no version is stored yet",
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a version and give it its name: from then on it is the newest."""
    path = _path(folder, manifest.version)
    draft = path.with_suffix(".draft")
    with open(draft, "xb", opener=owner_only) as file:
        file.write(_text(manifest).encode())
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    with suppress(OSError):  # it is committed: only the power failing now could undo it
        sync_folder(path.parent)


def delete_manifest(folder: Path, version: int) -> None:
    """Delete the manifest of a version."""
    _path(folder, version).unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def owner_only(path: str, flags: int) -> int:
    """Opener of files that only their owner reads."""
    return os.open(path, flags, 0o600)


def now() -> str:
    """The time, ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@contextmanager
def errors_named(folder: Path) -> Iterator[None]:
    """Turn a refusal of the file system into an error with its reason and place.

    Raises:
        StoreFullError: No space is left.
        StoreError: The folder, or something in it, cannot be written.
    """
    try:
        yield
    except OSError as error:
        explained = file_error(error, folder)
        if isinstance(explained, StoreFullError):
            raise explained from error
        place = Path(str(error.filename or ""))
        # Errors while reading rows from the source are not handled here.
        if error.errno in _REFUSED and (
            place in folder.parents or folder in (place, *place.parents)
        ):
            raise StoreError(
                f"the tables of records cannot be written: {error.strerror}",
                where=str(place),
                hint="give this user the right to write in the folder",
            ) from error
        raise


def _path(folder: Path, version: int) -> Path:
    return folder / MANIFESTS / f"{version:08d}.json"


def _text(manifest: Manifest) -> str:
    whole = {
        "schema_version": SCHEMA_VERSION,
        "version": manifest.version,
        "created": manifest.created,
        "note": manifest.note,
        "lineage": json.loads(canonical_json(manifest.lineage)),
        "tables": {table: asdict(state) for table, state in manifest.tables.items()},
    }
    return json.dumps(whole, ensure_ascii=False, indent=1)
