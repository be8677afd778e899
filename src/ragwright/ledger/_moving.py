"""Copies the rows of a SQLite file into a shared database; what is there already stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from ._database import Connection, Database, Tables
from ._sqlite import SqliteDatabase

_CHUNK = 500


def copy_rows(
    path: Path, tables: Tables, target: Database, rules: Mapping[str, str]
) -> Mapping[str, int]:
    """Copy tables of a file, each chunk in one transaction; returns the rows written per table.

    It may be repeated: rows that are there already are not written again.

    Args:
        path: The file; nothing is copied if it is missing.
        tables: What it holds.
        target: The database with the same tables.
        rules: Table -> the end of its statement, from ``ON CONFLICT``: what happens to a row that
            is there already. Tables in the order in which they are copied.

    Raises:
        StoreError: The file cannot be read, or the database cannot be written.
    """
    if not path.exists():
        return {}
    source = SqliteDatabase(path, tables)
    with closing(source.connect()) as reading, closing(target.connect()) as writing:
        return {name: _copy(reading, target, writing, name, rules[name]) for name in rules}


def _copy(reading: Connection, target: Database, writing: Connection, table: str, rule: str) -> int:
    names = [f'"{row[1]}"' for row in reading.execute(f"PRAGMA table_info({table})")]
    marks = ", ".join("?" * len(names))
    columns = ", ".join(names)
    insert = f"INSERT INTO {table} ({columns}) VALUES ({marks}) {rule}"  # noqa: S608
    rows = iter(reading.execute(f"SELECT {columns} FROM {table}"))  # noqa: S608
    written = 0
    with target.explained():
        for chunk in _chunks(rows):
            target.begin(writing)
            written += max(0, writing.executemany(insert, chunk).rowcount)
            writing.execute("COMMIT")
    return written


def _chunks(rows: Iterator[Sequence[object]]) -> Iterator[list[Sequence[object]]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
