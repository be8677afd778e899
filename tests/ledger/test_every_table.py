"""Every table that is declared survives kill -9, a full disk and a shared database alike."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing
from pathlib import Path

import pytest
from children import child
from every_table import (
    DECLARED,
    ONE_ROW,
    every_table,
    expected,
    opened,
    present,
    rows,
    write,
    writing_for_ever,
)

from ragwright.core import StoreFullError
from ragwright.ledger import Connection, Database, Place, SharedPlace, Writer

TABLES = every_table()
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    return f"postgresql://admin@/postgres?host={postgres}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path
    return SharedPlace(request.getfixturevalue("server"), f"every{next(NUMBERS)}")


def whole(place: Place, name: str, acknowledged: int) -> int:
    """Every table holds the same numbers, and all that were acknowledged; returns how many."""
    database = opened(place, name)
    with closing(database.connect()) as connection:
        counts = {}
        for table in present(database, name):
            stored = rows(connection, name, table)
            if table not in ONE_ROW:
                counts[table] = len(stored)
                assert stored == expected(name, table, range(len(stored)))
        assert len({*counts.values()}) == 1, "a piece of work is there in all tables, or in none"
        if isinstance(place, Path):
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    [count] = {*counts.values()}
    assert count > acknowledged
    return count


@pytest.mark.slow
@pytest.mark.parametrize("name", DECLARED)
def test_a_kill_loses_no_commit_and_keeps_no_half(place: Place, name: str) -> None:
    if not isinstance(place, Path) and name == "stamps":
        pytest.skip("a cache of one machine")
    for pause in (0.0, 0.003, 0.01, 0.02):
        target = place
        if not isinstance(place, Path):
            target = SharedPlace(place.address, f"every{next(NUMBERS)}")
        else:
            target = place / str(pause)
        with child(writing_for_ever, target, name) as told:
            last = told.recv()
            threading.Event().wait(pause)
        whole(target, name, last)


def small(database: Database) -> Connection:
    """A connection whose disk has room for a few rows."""
    connection = database.connect()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 12}")
    return connection


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_a_full_disk_keeps_what_was_committed(tmp_path: Path, name: str, table: str) -> None:
    database = opened(tmp_path, name)
    writer = Writer(database, small(database))
    kept = 0

    def until_full() -> None:
        nonlocal kept
        while kept < 1000:
            writer.call(work)
            kept += 1

    def work(connection: Connection) -> None:
        write(connection, name, table, kept)
        connection.execute("CREATE TABLE IF NOT EXISTS filler (x)")
        connection.execute("INSERT INTO filler VALUES (?)", ("x" * 3000,))

    with pytest.raises(StoreFullError, match="everything committed before is intact"):
        until_full()
    assert kept
    writer.close()
    with closing(database.connect()) as connection:  # somebody has freed some space
        assert rows(connection, name, table) == expected(name, table, range(kept))
        write(connection, name, table, kept)
        assert rows(connection, name, table) == expected(name, table, range(kept + 1))
