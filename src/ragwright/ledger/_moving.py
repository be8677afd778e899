"""Copies the rows of a SQLite file into a shared database; what is there already stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from ..core import StoreError
from ._database import Connection, Database
from ._former import former_files
from ._sqlite import SqliteDatabase

_CHUNK = 500


def copy_rows(path: Path, target: Database) -> Mapping[str, int]:
    """Copy the tables of a file, each chunk in one transaction; returns rows written per table.

    It may be repeated: rows that are there already are not written again. Rows that were given
    numbers keep them.

    Args:
        path: The file; nothing is copied if it is missing.
        target: The database with the same tables; their declaration says what is copied.

    Raises:
        StoreError: The file cannot be read, the database cannot be written, or both hold different
            rows of the same number: then nothing is copied.
    """
    tables = target.tables
    if not path.exists() and not former_files(path, tables):
        return {}
    source = SqliteDatabase(path, tables)
    with closing(source.connect()) as reading, closing(target.connect()) as writing:
        for table, (number, *same) in tables.numbered.items():
            if same:
                _refuse_twins((source, reading), (target, writing), table, (number, *same))
        copied = {
            name: _copy(reading, target, writing, name, rule) for name, rule in tables.moved.items()
        }
        if target.remote:
            with target.explained():
                for table, (number, *_) in tables.numbered.items():
                    _count_on(target, writing, table, number)
    return copied


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


def _refuse_twins(
    source: tuple[Database, Connection],
    target: tuple[Database, Connection],
    table: str,
    columns: Sequence[str],
) -> None:
    query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608
    here, there = _by_number(*source, query), _by_number(*target, query)
    twins = [number for number in here.keys() & there.keys() if here[number] != there[number]]
    if twins:
        raise StoreError(
            f"{columns[0]} {min(twins)} exists in both, with different outputs; no output was "
            "moved",
            where=f"{source[0].where}, {target[0].where}",
            hint="outputs keep their numbers: move those of one machine, before others write",
        )


def _by_number(database: Database, connection: Connection, query: str) -> dict[int, Any]:
    with database.explained():
        return {row[0]: tuple(row[1:]) for row in connection.execute(query)}


def _count_on(target: Database, writing: Connection, table: str, number: str) -> None:
    """Let the database give the numbers that follow the highest one."""
    target.begin(writing)
    writing.execute(
        f"SELECT setval(pg_get_serial_sequence('{table}', '{number}'), "  # noqa: S608
        f"(SELECT coalesce(max({number}), 0) + 1 FROM {table}), false)"
    )
    writing.execute("COMMIT")


def _chunks(rows: Iterator[Sequence[object]]) -> Iterator[list[Sequence[object]]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
