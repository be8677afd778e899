"""What SQLite and the system say of files, and files that can only be read."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import StoreBusyError, StoreDamagedError, StoreError, StoreFullError
from ragwright.ledger import file_error, reading_connection, writable


def sqlite_error(code: int, said: str) -> sqlite3.Error:
    error = sqlite3.OperationalError(said)
    error.sqlite_errorcode = code
    return error


def unwritable_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says what it says where it can make no log beside the file (tests may run as root)."""
    connect = sqlite3.connect

    def refused(address: str, **options: Any) -> sqlite3.Connection:
        if "immutable" not in address:
            raise sqlite_error(sqlite3.SQLITE_CANTOPEN, "unable to open database file")
        connection: sqlite3.Connection = connect(address, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", refused)


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
    tmp_path: Path, error: sqlite3.Error | OSError, kind: type[StoreError], said: str
) -> None:
    told = file_error(error, tmp_path / "a.sqlite")
    assert type(told) is kind
    assert said in told.what
    assert told.where == str(tmp_path / "a.sqlite")
    assert told.hint


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN])
def test_an_error_for_want_of_room_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """SQLite says `disk I/O error` where it cannot lay out the files beside its own."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    told = file_error(sqlite_error(code, "disk I/O error"), tmp_path / "a.sqlite")
    assert type(told) is StoreFullError


def test_a_file_is_writable_where_its_folder_could_be_made(tmp_path: Path) -> None:
    assert writable(tmp_path / "not" / "yet" / "a.sqlite")
    assert not writable(Path("/proc/self/nothing/a.sqlite"))
    (tmp_path / "file").touch()
    assert writable(tmp_path / "file" / "a.sqlite"), "what is in the way is told on making it"


def test_a_log_is_read_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES (1)")
    reader = reading_connection(path, 1.0)
    assert reader.execute("SELECT x FROM t").fetchall() == [(1,)]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("INSERT INTO t VALUES (2)")
    reader.close()
    writer.close()


@pytest.mark.slow
def test_a_file_read_as_it_lies_is_refused_once_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of two states together are no damage, and no answer either."""
    path = tmp_path / "a.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE t (x)")
    writer.executemany("INSERT INTO t VALUES (?)", [("y" * 500,)] * 2000)
    unwritable_folder(monkeypatch)
    reader = reading_connection(path, 1.0)
    monkeypatch.undo()
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2000,)
    writer.execute("DELETE FROM t")
    writer.execute("VACUUM")
    with pytest.raises(sqlite3.OperationalError, match="began to write") as caught:
        reader.execute("SELECT sum(length(x)) FROM t")
    assert type(file_error(caught.value, path)) is StoreBusyError
    reader.close()
    writer.close()


def test_a_lock_is_waited_for_and_told_not_read_past(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE t (x)")
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(sqlite3.OperationalError) as caught:
        reading_connection(path, 0.05)
    assert type(file_error(caught.value, path)) is StoreBusyError
    writer.execute("ROLLBACK")
    reading_connection(path, 0.05).close()
    writer.close()


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_what_a_log_says_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    path = tmp_path / "a.sqlite"
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    unwritable_folder(monkeypatch)
    reading_connection(path, 0.05).close()
    Path(f"{path}{end}").write_bytes(b"x")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        reading_connection(path, 0.05)
