"""Rows of tables for tests: written, read back as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ragwright.core import text_hash
from ragwright.records import HASH, KEY, TABLES, RecordTables, TableName, UpsertCounts


def upsert(writer: Any, table: TableName, rows: Mapping[str, object]) -> UpsertCounts:
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
    batches = tables.read(table, [KEY, "text"], **how)
    return [(row[KEY], row["text"]) for batch in batches for row in batch.to_pylist()]


def files(folder: Path) -> set[str]:
    """Files of the tables, below their folder; without the lock, the README and Delta's logs."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if "_delta_log" not in name} - {"lock", "README.md"}


def named(tables: RecordTables) -> set[str]:
    manifests = {f"manifests/{manifest.version:08d}.json" for manifest in tables.history()}
    return manifests.union(*(manifest.files for manifest in tables.history()))


def holding(folder: Path, *texts: str) -> list[Path]:
    """Files that hold one of these: in their bytes, or in a column that is compressed."""
    from pyarrow import parquet

    found = []
    for path in filter(Path.is_file, folder.rglob("*")):
        raw = path.read_bytes()
        told = str(parquet.read_table(path).to_pylist()) if raw[:4] == b"PAR1" else ""
        found += [path] * any(text.encode() in raw or text in told for text in texts)
    return found


def rows_of(version: int) -> dict[str, str]:
    """What a writer's version upserts into every table."""
    return {f"k{(version * 7 + step) % 60:02d}": f"{version // 3}" for step in range(25)}


def gone_of(version: int) -> list[str]:
    return [f"k{(version * 11 + step) % 60:02d}" for step in range(version % 9)]


def write_on(tell: Connection, folder: Path) -> None:
    tables = RecordTables(folder, keep=3)
    while True:
        with tables.writing("child", 10) as writing:
            version = tables.version + 1
            rows = list(rows_of(version).items())
            for table in TABLES:
                for start in range(0, len(rows), 9):
                    upsert(writing, table, dict(rows[start : start + 9]))
                writing.remove(table, gone_of(version))
            writing.commit({"version": version}, f"version {version}")
        tell.send(version)
