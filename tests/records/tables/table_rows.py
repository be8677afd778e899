"""Rows of tables for tests: written as parts, read back as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragwright.core import text_hash
from ragwright.records import HASH, KEY, RecordTables, TableName, UpsertCounts
from ragwright.records.tables import TableWriter


def hash_of(text: object) -> str:
    """A row's hash: 32 hexadecimal digits."""
    return text_hash(str(text))[:32]


def adopt(writing: TableWriter, table: TableName, rows: Mapping[str, object]) -> UpsertCounts:
    """Adopt a part of rows, key -> value of the column ``text``."""
    path = writing.new_part(table)
    write(path, list(rows), list(rows.values()))
    return writing.adopt(table, path)


def write(path: Path, keys: Sequence[str], texts: Sequence[object], **columns: Any) -> None:
    """Write a part whose hashes follow from the column ``text``."""
    import pyarrow as pa  # the test that calls this is skipped without it
    from pyarrow import parquet

    made = {KEY: pa.array(list(keys), pa.string()), HASH: [hash_of(text) for text in texts]}
    parquet.write_table(pa.table({**made, "text": list(texts), **columns}), path)


def content(
    tables: RecordTables | TableWriter, table: TableName, **how: Any
) -> list[tuple[str, Any]]:
    """Live rows as (key, text), in the order in which the table reads."""
    return [
        (row[KEY], row["text"])
        for batch in tables.read(table, [KEY, "text"], **how)
        for row in batch.to_pylist()
    ]


def files(folder: Path) -> set[str]:
    """Files of the tables, below their folder; without the lock, the README and Delta's logs."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if "_delta_log" not in name} - {"lock", "README.md"}


def holds(path: Path, text: str) -> bool:
    """True where a file contains a text: in its bytes, or in a column that is compressed."""
    from pyarrow import parquet

    raw = path.read_bytes()
    if raw[:4] != b"PAR1":
        return text.encode() in raw
    return text.encode() in raw or text in str(parquet.read_table(path).to_pylist())
