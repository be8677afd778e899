"""Rows of every table, made from the declarations: what holds for one table holds for all."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from ragwright.ledger import (
    REPLY_TABLES,
    STAMP_TABLES,
    Connection,
    Database,
    Place,
    Writer,
    ledger_tables,
    open_database,
)

DECLARED = {tables.name: tables for tables in (ledger_tables(), REPLY_TABLES, STAMP_TABLES)}
ONE_ROW = {"drawn", "last_ingest"}
"""Tables with a single row."""


@cache
def columns(name: str) -> Mapping[str, Mapping[str, str]]:
    """Table -> its columns -> their types; of one declaration, those of SQLite files included."""
    tables = DECLARED[name]
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*tables.statements, *tables.local):
            connection.execute(statement)
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {
            table: {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}
            for (table,) in connection.execute(query)
        }


def every_table() -> list[tuple[str, str]]:
    return [(name, table) for name in DECLARED for table in columns(name)]


def shared(name: str) -> list[str]:
    """The tables of a declaration that a shared database has too."""
    local = " ".join(DECLARED[name].local)
    return [table for table in columns(name) if f" {table} (" not in local]


def row(name: str, table: str, number: int, size: int = 0) -> tuple[Any, ...]:
    """The values of a row, all different from those of other numbers; ``size`` lengthens texts."""
    kinds = columns(name)[table]
    number = 0 if table in ONE_ROW else number
    values = {
        "TEXT": f"{table} é {number} {'x' * size}",
        "INTEGER": number + 1,
        "REAL": number + 0.5,
        "BLOB": f"{table} {number} {'x' * size}".encode(),
    }
    return tuple(values[kind] for kind in kinds.values())


def write(connection: Connection, name: str, table: str, number: int, size: int = 0) -> None:
    names = ", ".join(f'"{column}"' for column in columns(name)[table])
    values = row(name, table, number, size)
    marks = ", ".join("?" * len(values))
    insert = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    connection.execute(insert, values)


def rows(connection: Connection, name: str, table: str) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{column}"' for column in columns(name)[table])
    return sorted(tuple(r) for r in connection.execute(f"SELECT {names} FROM {table}").fetchall())


def expected(name: str, table: str, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """What :func:`rows` returns once these were written."""
    return sorted({row(name, table, number) for number in numbers})


def present(database: Database, name: str) -> list[str]:
    return shared(name) if database.remote else [*columns(name)]


def opened(place: Place, name: str) -> Database:
    """A declaration at a place; files of several lie beside each other."""
    where = place / f"{name}.sqlite" if isinstance(place, Path) else place
    return open_database(where, DECLARED[name])


def writing_for_ever(tell: Any, place: Place, name: str) -> None:
    """Write a row into every table at once, again and again; tells each number once it is kept."""
    database = opened(place, name)
    tables = present(database, name)
    writer = Writer(database)

    def done(kept: Future[int]) -> None:
        tell.send(kept.result())

    for number in itertools.count():

        def work(connection: Connection, number: int = number) -> int:
            for table in tables:
                write(connection, name, table, number)
            return number

        if number % 3:  # now several in a commit, now one
            writer.submit(work).add_done_callback(done)
        else:
            tell.send(writer.call(work))
