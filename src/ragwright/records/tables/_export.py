"""Exports of tables: Parquet, CSV, JSON lines, and chats for fine-tuning."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from ...core import RecordsError, StoreError, csv_cell, csv_formula, replacing, require
from .._seams import ArrowTable, TableName
from ._manifest import errors_named
from ._tables import RecordTables
from ._types import cast_text, iso_text, readable

_Write: TypeAlias = Callable[[Iterable[ArrowTable], IO[bytes]], int]


def export_table(
    tables: RecordTables,
    table: TableName,
    path: Path,
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> int:
    """Write the rows of a table to one file, a part in memory at a time; how many there were.

    The suffix says the format: ``.parquet``; ``.csv`` (UTF-8, lists as JSON); ``.jsonl`` (dates
    as ISO 8601, numbers that are none as null). Outside of Parquet bytes are hexadecimal digits,
    and durations are as ISO 8601 has them. The file gets its name only when it is complete.

    Raises:
        RecordsError: No such suffix or column.
        StoreFullError: The disk is full; a file that was there before is as it was.
        StoreError: The file cannot be written.
        SnapshotGoneError: The version is not kept.
    """
    write = _FORMATS.get(path.suffix.lower())
    if write is None:
        raise RecordsError(
            f"no format for the suffix {path.suffix!r}",
            where=str(path),
            hint=f"known: {', '.join(_FORMATS)}",
        )
    with _replaced_file(path) as file:
        return write(tables.read(table, columns, version), file)


def export_chats(
    tables: RecordTables,
    path: Path,
    request: Callable[[Mapping[str, Any]], str],
    system: str = "",
    version: int | None = None,
) -> int:
    """Write gold rows as chats, one a line: ``{"messages": [user turn, assistant turn]}``.

    Args:
        tables: Whose table gold.
        path: File to write, JSON lines.
        request: Makes the user turn from a row; the assistant's is the row's ``text``.
        system: Put before both as a system turn, unless empty.
        version: Which version; the newest where None.

    Raises:
        StoreError: The file cannot be written; as of :func:`export_table`.
    """
    first = [{"role": "system", "content": system}] if system else []

    def lines(rows: Iterable[ArrowTable]) -> Iterator[bytes]:
        for batch in rows:
            for row in batch.to_pylist():
                turns = [
                    *first,
                    {"role": "user", "content": request(row)},
                    {"role": "assistant", "content": row["text"]},
                ]
                yield json.dumps({"messages": turns}, ensure_ascii=False).encode() + b"\n"

    count = 0
    with _replaced_file(path) as file:
        for line in lines(tables.read("gold", None, version)):
            file.write(line)
            count += 1
    return count


@contextmanager
def _replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of another only when all of it is on the disk."""
    path = path.absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise StoreError(
            "the file cannot be written", where=str(path), hint="give a file in an existing folder"
        )
    with errors_named(path.parent), replacing(path) as file:
        yield file


def _parquet(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    pa = require("pyarrow", "records", "exporting records")
    parquet = require("pyarrow.parquet", "records", "exporting records")
    count = 0
    writer = None
    try:
        for batch in rows:
            if writer is None:
                writer = parquet.ParquetWriter(file, batch.schema, compression="zstd")
            writer.write_table(batch)
            count += batch.num_rows
        if writer is None:
            parquet.write_table(pa.table({}), file)
    finally:
        if writer is not None:
            writer.close()
    return count


def _csv(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    csv = require("pyarrow.csv", "records", "exporting records")
    count = 0
    writer = None
    try:
        for batch in rows:
            flat = _flat(batch)
            if writer is None:
                writer = csv.CSVWriter(file, flat.schema)
            writer.write_table(flat)
            count += flat.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def _flat(rows: ArrowTable) -> ArrowTable:
    """Rows with columns that a CSV file can hold; what it cannot is text."""
    pa = require("pyarrow", "records", "exporting records")
    rows = readable(_guarded(rows))
    for at, column in enumerate(rows.schema):
        kind = column.type
        plain = pa.types.is_primitive(kind) or pa.types.is_string(kind)
        if pa.types.is_nested(kind):
            values = (_nested(value) for value in rows.column(at).to_pylist())
            rows = rows.set_column(at, column.name, pa.array(values, pa.large_string()))
        elif not plain and not pa.types.is_large_string(kind):
            rows = rows.set_column(at, column.name, cast_text(rows.column(at)))
    return rows


def _guarded(rows: ArrowTable) -> ArrowTable:
    """Rows whose texts and names no spreadsheet runs as formulas."""
    pa = require("pyarrow", "records", "exporting records")
    compute = require("pyarrow.compute", "records", "exporting records")
    for at, column in enumerate(rows.schema):
        values = rows.column(at)
        if pa.types.is_dictionary(column.type):
            values = values.cast(column.type.value_type)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            # Few columns hold such a text: those that do pass through Python.
            first_formula = compute.index(
                compute.match_substring_regex(values, csv_formula()), True
            )
            if first_formula.as_py() >= 0:
                texts = [None if text is None else csv_cell(text) for text in values.to_pylist()]
                rows = rows.set_column(at, column.name, pa.array(texts, values.type))
    return rows.rename_columns([csv_cell(name) for name in rows.column_names])


def _nested(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=iso_text)


def _jsonl(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    for batch in rows:
        for row in readable(batch).to_pylist():
            file.write(_line(row))
            count += 1
    return count


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=iso_text)
    except ValueError:  # not a number, or infinite: JSON has no word for it
        text = json.dumps(_finite(row), ensure_ascii=False, default=iso_text)
    return text.encode("utf-8", "replace") + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


_FORMATS: dict[str, _Write] = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
