"""The file of a table: what SQLite and the system say of it, versions, kills, full disks."""

from __future__ import annotations

import errno
import itertools
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

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

from ragwright.core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)
from ragwright.ledger import (
    Connection,
    Place,
    SharedPlace,
    Tables,
    Writer,
    file_error,
    open_cache,
    open_database,
    reading_connection,
    writable,
)

NUMBERS = itertools.count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sqlite"


def made(path: Path, *statements: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("CREATE TABLE t (x)", *statements):
        connection.execute(statement)
    return connection


def sqlite_error(code: int, said: str) -> sqlite3.Error:
    error = sqlite3.OperationalError(said)
    error.sqlite_errorcode = code
    return error


@pytest.fixture
def unwritable_folder(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """SQLite says what it says where it can make no log beside the file (tests may run as root)."""
    connect = sqlite3.connect

    def refused(address: str, **options: Any) -> sqlite3.Connection:
        if "immutable" in str(address) or not str(address).startswith("file:"):
            connection: sqlite3.Connection = connect(address, **options)
            return connection
        raise sqlite_error(sqlite3.SQLITE_CANTOPEN, "unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refused)
    return monkeypatch


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreFullError, "the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), StoreFullError, "the disk is full"),
        (OSError(errno.EROFS, "Read-only file system"), StoreError, "cannot be written"),
        (OSError(errno.EIO, "Input/output error"), StoreError, "cannot be used: Input/output"),
        (sqlite_error(sqlite3.SQLITE_FULL, "full"), StoreFullError, "the disk is full"),
        (sqlite_error(sqlite3.SQLITE_BUSY, "locked"), StoreBusyError, "another process"),
        (sqlite_error(sqlite3.SQLITE_READONLY, "readonly"), StoreError, "cannot be written"),
        (sqlite_error(sqlite3.SQLITE_NOTADB, "no database"), StoreDamagedError, "is damaged"),
        (sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error"), StoreError, "cannot be used: disk"),
    ],
)
def test_every_error_says_what_where_and_what_to_do(
    path: Path, error: sqlite3.Error | OSError, kind: type[StoreError], said: str
) -> None:
    told = file_error(error, path)
    assert type(told) is kind
    assert said in told.what
    assert told.where == str(path)
    assert told.hint


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN])
def test_an_error_for_want_of_room_is_a_full_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """SQLite says `disk I/O error` where it cannot lay out the files beside its own."""
    usage = shutil.disk_usage(path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert type(file_error(sqlite_error(code, "disk I/O error"), path)) is StoreFullError


# -- files that are read -------------------------------------------------------------------


def test_a_file_is_writable_where_its_folder_could_be_made(tmp_path: Path) -> None:
    assert writable(tmp_path / "not" / "yet" / "a.sqlite")
    assert not writable(Path("/proc/self/nothing/a.sqlite"))
    (tmp_path / "file").touch()
    assert writable(tmp_path / "file" / "a.sqlite"), "what is in the way is told on making it"


def test_a_log_is_read_with_its_file_and_a_lock_is_told_not_read_past(path: Path) -> None:
    writer = made(path, "PRAGMA journal_mode = WAL", "INSERT INTO t VALUES (1)")
    with closing(reading_connection(path, 1.0)) as reader:
        assert reader.execute("SELECT x FROM t").fetchall() == [(1,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("INSERT INTO t VALUES (2)")
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(sqlite3.OperationalError) as caught:
        reading_connection(path, 0.05)
    assert type(file_error(caught.value, path)) is StoreBusyError
    writer.execute("ROLLBACK")
    reading_connection(path, 0.05).close()
    writer.close()


def test_a_file_read_as_it_lies_is_refused_once_somebody_writes(
    path: Path, unwritable_folder: pytest.MonkeyPatch
) -> None:
    """Pages of two states together are no damage, and no answer either."""
    writer = made(path, "BEGIN")
    writer.executemany("INSERT INTO t VALUES (?)", [("y" * 500,)] * 2000)
    writer.execute("COMMIT")
    reader = reading_connection(path, 1.0)
    unwritable_folder.undo()
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2000,)
    writer.execute("DELETE FROM t")
    writer.execute("VACUUM")
    with pytest.raises(sqlite3.OperationalError, match="began to write") as caught:
        reader.execute("SELECT sum(length(x)) FROM t")
    assert type(file_error(caught.value, path)) is StoreBusyError
    reader.close()
    writer.close()


@pytest.mark.usefixtures("unwritable_folder")
@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_what_a_log_says_is_not_passed_over(path: Path, end: str) -> None:
    made(path).close()
    reading_connection(path, 0.05).close()
    Path(f"{path}{end}").write_bytes(b"x")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        reading_connection(path, 0.05)


@pytest.mark.parametrize("version", [1, 3])
def test_a_file_of_another_version_is_refused_a_cache_made_anew(path: Path, version: int) -> None:
    first = "CREATE TABLE IF NOT EXISTS runs (run TEXT)"
    with open_database(path, Tables("kept", (first,), version)).transaction() as writing:
        writing.execute("INSERT INTO runs VALUES ('r')")
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match=f"version {version}; .* reads 2") as caught:
        open_database(path, Tables("kept", (first,), 2))
    assert f"move {path.parent} away, then run: ragwright ingest" in (caught.value.hint or "")
    assert path.read_bytes() == before
    open_cache(path, Tables("kept", (first,), 2))
    with closing(open_database(path, Tables("kept", (first,), 2)).connect()) as kept:
        assert kept.execute("SELECT run FROM runs").fetchall() == []


# -- every table that is declared ----------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path
    address = f"postgresql://admin@/postgres?host={request.getfixturevalue('postgres')}"
    return SharedPlace(address, f"every{next(NUMBERS)}")


def whole(place: Place, name: str, acknowledged: int) -> None:
    """Every table holds the same numbers, and all that were acknowledged."""
    database = opened(place, name)
    counts = set()
    with closing(database.connect()) as connection:
        for table in present(database, name):
            stored = rows(connection, name, table)
            if table not in ONE_ROW:
                counts.add(len(stored))
                assert stored == expected(name, table, range(len(stored)))
        if isinstance(place, Path):
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    [count] = counts  # a piece of work is there in all tables, or in none
    assert count > acknowledged


@pytest.mark.slow
@pytest.mark.parametrize("name", DECLARED)
def test_a_kill_loses_no_commit_and_keeps_no_half(place: Place, name: str) -> None:
    if not isinstance(place, Path) and name == "stamps":
        pytest.skip("a cache of one machine")
    for pause in (0.0, 0.003, 0.01, 0.02):
        if isinstance(place, Path):
            target: Place = place / str(pause)
        else:
            target = SharedPlace(place.address, f"every{next(NUMBERS)}")
        with child(writing_for_ever, target, name) as told:
            last = told.recv()
            threading.Event().wait(pause)
        whole(target, name, last)


@pytest.mark.parametrize(("name", "table"), every_table())
def test_a_full_disk_keeps_what_was_committed(tmp_path: Path, name: str, table: str) -> None:
    database = opened(tmp_path, name)
    small = database.connect()
    pages = small.execute("PRAGMA page_count").fetchone()[0]
    small.execute(f"PRAGMA max_page_count = {pages + 12}")  # room for a few rows
    writer, kept = Writer(database, small), 0

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
