"""Rows of tables for tests: written, read back as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragwright.core import text_hash
from ragwright.records import HASH, KEY, RecordTables, TableName, UpsertCounts


def upsert(writer: Any, table: TableName, rows: Mapping[str, object]) -> UpsertCounts:
    """Write rows, key -> value of the column ``text``."""
    new, written = writer.upsert(table, table_of(list(rows), list(rows.values())))
    return UpsertCounts(new, written.num_rows - new, len(rows) - written.num_rows)


def table_of(keys: Sequence[str], texts: Sequence[object], **columns: Any) -> Any:
    """Rows whose hashes follow from the column ``text``."""
    import pyarrow as pa  # the test that calls this is skipped without it

    hashes = [text_hash(str(text))[:32] for text in texts]
    made = {KEY: pa.array(list(keys), pa.string()), HASH: pa.array(hashes, pa.string())}
    return pa.table({**made, "text": list(texts), **columns})


def content(tables: RecordTables | Any, table: TableName, **how: Any) -> list[tuple[str, Any]]:
    """Rows as (key, text), in the order in which the table reads."""
    return [
        (row[KEY], row["text"])
        for batch in tables.read(table, [KEY, "text"], **how)
        for row in batch.to_pylist()
    ]


def files(folder: Path) -> set[str]:
    """Files of the tables, below their folder; without the lock, the README and Delta's logs."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if "_delta_log" not in name} - {"lock", "README.md"}


def named(tables: RecordTables) -> set[str]:
    """Files that a version names, and the manifests."""
    manifests = {f"manifests/{manifest.version:08d}.json" for manifest in tables.history()}
    return manifests.union(*(manifest.files for manifest in tables.history()))


def holds(path: Path, text: str) -> bool:
    """True where a file contains a text: in its bytes, or in a column that is compressed."""
    from pyarrow import parquet

    raw = path.read_bytes()
    if raw[:4] != b"PAR1":
        return text.encode() in raw
    return text.encode() in raw or text in str(parquet.read_table(path).to_pylist())
