"""Copies the rows of a SQLite file into a shared database; what is there already stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from ._database import Connection, Database
from ._sqlite import SqliteDatabase

_CHUNK = 500


def copy_rows(path: Path, target: Database) -> Mapping[str, int]:
    """Copy the tables of a file, each chunk in one transaction; returns rows written per table.

    It may be repeated: rows that are there already are not written again.

    Args:
        path: The file; nothing is copied if it is missing.
        target: The database with the same tables; their declaration says what is copied.

    Raises:
        StoreError: The file cannot be read, or the database cannot be written.
    """
    if not path.exists():
        return {}
    source, rules = SqliteDatabase(path, target.tables), target.tables.moved
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
