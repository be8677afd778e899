"""Parts of a table as rows: dead ones left out, different schemas read as one."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, StoreError, near, require
from .._seams import HASH, KEY, ArrowTable
from ._manifest import ColumnTypes, TableFile, TableState, owner_only

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LivePart:
    """A file of a table.

    Attributes:
        path: The Parquet file.
        rows: Its rows, dead ones included.
        live: Which of them are alive, bool of shape (rows,); None where all are.
    """

    path: Path
    rows: int
    live: Flags | None = None


def _arrow_schema(path: Path) -> ArrowTable:
    pa = require("pyarrow", "records", "reading records")
    parquet = require("pyarrow.parquet", "records", "reading records")
    try:
        return parquet.read_schema(path)
    except pa.ArrowInvalid as error:
        raise damaged(path, error) from error


def read_file(path: Path, columns: Sequence[str] | None = None) -> ArrowTable:
    """Rows of a file, some columns or all.

    Raises:
        StoreError: It is not a complete Parquet file.
    """
    pa = require("pyarrow", "records", "reading records")
    parquet = require("pyarrow.parquet", "records", "reading records")
    try:
        with parquet.ParquetFile(path) as file:
            names = None if columns is None else list(columns)
            return file.read(columns=names, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):  # the file system's word, not the format's
            raise
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> StoreError:
    """The error for a file that is not a complete Parquet file."""
    return StoreError(
        f"a file of the tables cannot be read: {error}",
        where=str(path),
        hint="restore it from a backup, or restore a version that does not need it",
    )


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Keys and hashes of a file's rows (Arrow arrays), and the file's columns."""

    keys: ArrowTable
    hashes: ArrowTable
    columns: ColumnTypes


def keys_of(path: Path) -> FileKeys:
    """What a table has to know of a file.

    Raises:
        RecordsError: It lacks one of the columns, or a row has no key.
        StoreError: It is no Parquet file.
    """
    schema = _arrow_schema(path)
    for column in (KEY, HASH):
        if schema.names.count(column) != 1:
            raise RecordsError(f"rows without the column {column}", where=str(path))
    found = read_file(path, [KEY, HASH])
    keys = found.column(KEY)
    if keys.null_count:
        row = keys.is_null().to_pylist().index(True)
        raise RecordsError("a row has no key", where=f"{path}, row {row + 1}")
    columns = tuple((column.name, str(column.type)) for column in schema)
    return FileKeys(keys, found.column(HASH), columns)


def dead_rows(folder: Path, parts: Iterable[TableFile]) -> dict[str, NDArray[np.int64]]:
    """Dead rows of the parts that have some, by the part's file."""
    compute = require("pyarrow.compute", "records", "reading records")
    wanted: dict[str, set[str]] = {}
    for part in parts:
        if part.dead_file:
            wanted.setdefault(part.dead_file, set()).add(part.file)
    found: dict[str, NDArray[np.int64]] = {}
    for name, files in wanted.items():
        table = read_file(folder / name)
        rows = table.column("row").to_numpy()
        runs = compute.run_end_encode(table.column("part").combine_chunks())
        start = 0
        for file, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if file in files:
                found[file] = rows[start:stop]
            start = stop
    return found


def write_dead_rows(path: Path, dead: Mapping[str, NDArray[np.int64]]) -> None:
    """Write which rows of which parts are dead: columns ``part`` and ``row`` (from 0)."""
    pa = require("pyarrow", "records", "writing records")
    codes = np.repeat(np.arange(len(dead)), [len(rows) for rows in dead.values()])
    table = pa.table(
        {
            "part": pa.array(list(dead), pa.string()).take(pa.array(codes)),
            "row": np.concatenate(list(dead.values())).astype(np.int64),
        }
    )
    write_part(table, path)


def write_part(rows: ArrowTable, target: Path) -> None:
    """Write one Parquet file, on the disk; it has its name only when it is whole.

    The name until then is nobody else's, so that a task begun twice (a worker that was thought
    dead) does not write into its twin's file. For its owner alone, like all of the tables.
    """
    parquet = require("pyarrow.parquet", "records", "writing records")
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb", opener=owner_only) as file:
            parquet.write_table(rows, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def live_mask(rows: int, dead: NDArray[np.int64] | None) -> Flags | None:
    """Mask of live rows; None if all are."""
    if dead is None or not len(dead):
        return None
    live = np.ones(rows, np.bool_)
    live[dead] = False
    return live


def live_parts(folder: Path, parts: Sequence[TableFile]) -> tuple[LivePart, ...]:
    """Parts as files with the rows alive."""
    dead = dead_rows(folder, parts)
    return tuple(
        LivePart(folder / part.file, part.rows, live_mask(part.rows, dead.get(part.file)))
        for part in parts
    )


def table_state(folder: Path, parts: Sequence[TableFile]) -> TableState:
    """A table of these parts, with the schema that they have together."""
    schema, as_text = joined_schema(folder, parts)
    return TableState(
        tuple(parts), {column.name: str(column.type) for column in schema}, tuple(as_text)
    )


def joined_schema(folder: Path, parts: Sequence[TableFile]) -> tuple[ArrowTable, list[str]]:
    """The Arrow schema of parts read as one table, and the columns that became text for it.

    Columns stand in the order in which they first appear. Types that widen into one another do
    (integers into wider ones and into fractions, which round beyond 2**53; what is all null into
    anything); others are text.
    """
    pa = require("pyarrow", "records", "reading records")
    examples = {part.columns: part.file for part in parts}
    kinds: dict[str, ArrowTable] = {}
    as_text: dict[str, None] = {}
    for columns in dict.fromkeys(part.columns for part in parts):
        for column in _arrow_schema(folder / examples[columns]):
            kind = kinds.setdefault(column.name, column.type)
            if kind.equals(column.type):
                continue
            joined = _joined(kind, column.type)
            if joined is None:
                joined = pa.large_string()
                as_text[column.name] = None
            kinds[column.name] = joined
    return pa.schema(list(kinds.items())), list(as_text)


def _joined(one: ArrowTable, other: ArrowTable) -> ArrowTable | None:
    """The type that holds values of both; None where only text does."""
    pa = require("pyarrow", "records", "reading records")
    one, other = (k.value_type if pa.types.is_dictionary(k) else k for k in (one, other))
    pair = (one, other)
    if all(map(pa.types.is_timestamp, pair)) and one.tz == other.tz:
        return pa.timestamp("us", one.tz)  # the unit that loses no date of a calendar
    if any(map(_is_bytes, pair)) and not all(map(_is_bytes, pair)):
        return other if pa.types.is_null(one) else one if pa.types.is_null(other) else None
    if any(map(pa.types.is_uint64, pair)) and any(map(pa.types.is_signed_integer, pair)):
        return None
    try:
        return pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        ).types[0]
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def _is_bytes(kind: ArrowTable) -> bool:
    pa = require("pyarrow", "records", "reading records")
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def read_parts(
    folder: Path,
    parts: Sequence[TableFile],
    live: Iterable[LivePart],
    columns: Sequence[str] | None,
) -> Iterator[ArrowTable]:
    """Rows alive, a part at a time, all with the same schema.

    Raises:
        RecordsError: A column is in none of the parts.
        StoreError: A file is damaged.
    """
    pa = require("pyarrow", "records", "reading records")
    if not parts:
        return
    schema, _ = joined_schema(folder, parts)
    if columns is not None:
        schema = _chosen(schema, columns)
    for part, found in zip(parts, live, strict=True):
        if found.live is not None and not found.live.any():
            continue
        names = [column for column, _ in part.columns]
        wanted = [name for name in schema.names if name in names]
        rows = read_file(found.path, wanted)
        if not wanted:
            rows = pa.table({"": pa.nulls(found.rows)})
        if found.live is not None:
            rows = rows.filter(pa.array(found.live))
        if rows.num_rows:
            yield _fitted(rows, schema)


def _chosen(schema: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    pa = require("pyarrow", "records", "reading records")
    for name in columns:
        if name not in schema.names:
            raise RecordsError(f"the table has no column {name!r}", hint=near(name, schema.names))
    return pa.schema([schema.field(name) for name in columns])


def _fitted(rows: ArrowTable, schema: ArrowTable) -> ArrowTable:
    """Rows with exactly the columns of a schema; those they lack are null."""
    pa = require("pyarrow", "records", "reading records")
    made = []
    for column in schema:
        if column.name not in rows.column_names:
            made.append(pa.nulls(rows.num_rows, column.type))
            continue
        values = rows.column(column.name)
        if values.type.equals(column.type):
            made.append(values)
        elif pa.types.is_large_string(column.type):
            made.append(as_text(values))
        else:
            made.append(values.cast(column.type, safe=False))
    return pa.Table.from_arrays(made, schema=schema)


def as_text(values: ArrowTable) -> ArrowTable:
    """Values as text; lists and records as JSON."""
    pa = require("pyarrow", "records", "reading records")
    kind = values.type
    if pa.types.is_nested(kind):
        found = [
            None if value is None else json.dumps(value, ensure_ascii=False, default=str)
            for value in values.to_pylist()
        ]
        return pa.array(found, pa.large_string())
    if _is_bytes(kind):
        return pa.array(
            [
                None if value is None else value.decode("utf-8", "replace")
                for value in values.to_pylist()
            ],
            pa.large_string(),
        )
    return values.cast(pa.large_string())
