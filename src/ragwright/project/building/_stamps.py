"""File stamps: which files are unchanged since they were last read.

A cache: without it every file is read again, nothing else changes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...core import StoreBusyError, text_hash
from ...ingest import RemoteFile, SourceFile
from ...ledger import discard, file_error, writable

_SCHEMA = """CREATE TABLE IF NOT EXISTS stamps (
    reading TEXT NOT NULL,
    path BLOB NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    documents TEXT NOT NULL,
    PRIMARY KEY (reading, path)
) WITHOUT ROWID"""

_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors of a damaged file; SQLite quotes parts of it that may not be UTF-8."""

_RACY_NS = 2_000_000_000
"""A file changed this shortly before reading may change again without new times."""


_DIGITS = 15
"""Hexadecimal digits of a version's hash that SQLite's integers hold."""

_SETTLED = 2**62
"""Taken when: a version changes with the content, so that no time has to pass."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and times of a file when it was read, and when that was (nanoseconds)."""

    size: int
    modified: int
    changed: int
    taken: int

    @classmethod
    def of(cls, path: SourceFile) -> Stamp:
        """The stamp of a file as it is now; of a remote one its version, as a number."""
        if isinstance(path, RemoteFile):
            version = int(text_hash(path.version)[:_DIGITS], 16) if path.version else -1
            return cls(path.size, version, 0, _SETTLED if path.version else 0)
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, time.time_ns())


class Stamps:
    """Stamps of files per way of reading, in one SQLite file.

    Args:
        path: File to use; a damaged one is replaced, and if it cannot be written, nothing is
            remembered.
        reading: Key of the reader's settings and version; each has its own stamps.
    """

    def __init__(self, path: Path, reading: str) -> None:
        self._reading = reading
        self._path = path
        self._kept = writable(path)
        if not self._kept:
            self._connection = _prepared(sqlite3.connect(":memory:"))
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _open(path)
        except _DAMAGED:
            self._connection = self._afresh()
        except OSError as error:
            raise file_error(error, path) from error

    def _afresh(self) -> sqlite3.Connection:
        """Replace a damaged file: all files are then read again, once."""
        try:
            discard(self._path)
            return _open(self._path)
        except (*_DAMAGED, OSError) as error:
            raise file_error(error, self._path) from error

    def _run(self, statement: str, values: tuple[str | int | bytes, ...]) -> tuple[Any, ...] | None:
        """The first row of a statement; a damaged file is replaced first."""
        try:
            return cast("tuple[Any, ...] | None", self._first(statement, values))
        except _DAMAGED as error:
            if not self._kept or isinstance(file_error(error, self._path), StoreBusyError):
                raise file_error(error, self._path) from error
        self._connection.close()
        self._connection = self._afresh()
        return cast("tuple[Any, ...] | None", self._first(statement, values))

    def _first(self, statement: str, values: tuple[str | int | bytes, ...]) -> Any:
        return self._connection.execute(statement, values).fetchone()

    def documents(self, path: SourceFile) -> tuple[int, tuple[tuple[str, str], ...]] | None:
        """Size and (document id, content hash) of an unchanged file, None if it is new."""
        row = self._run(
            "SELECT size, modified, changed, taken, documents FROM stamps "
            "WHERE reading = ? AND path = ?",
            (self._reading, _key(path)),
        )
        if row is None:
            return None
        try:
            now = Stamp.of(path)
        except OSError:
            return None
        if (row[0], row[1], row[2]) != (now.size, now.modified, now.changed):
            return None
        if not isinstance(row[3], int) or row[3] - max(row[1], row[2]) < _RACY_NS:
            return None
        try:
            return row[0], tuple((str(name), str(content)) for name, content in json.loads(row[4]))
        except (ValueError, TypeError):
            return None  # damaged: the file is read again

    def put(self, path: SourceFile, stamp: Stamp, documents: Sequence[tuple[str, str]]) -> None:
        """Remember a file that was read; the stamp must have been taken before reading."""
        self._run(
            "INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self._reading,
                _key(path),
                stamp.size,
                stamp.modified,
                stamp.changed,
                stamp.taken,
                json.dumps(list(documents)),
            ),
        )

    def commit(self) -> None:
        """Commit the last entries; a busy or damaged file only costs time."""
        try:
            self._connection.commit()
        except _DAMAGED:
            with suppress(*_DAMAGED):
                self._connection.rollback()

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._connection.close()


def forget_stamps(path: Path, document_id: str) -> None:
    """Remove what is remembered of the file of a document; the file is read again if it is there.

    Where that cannot be done, everything that is remembered goes: files are then read again, once.

    Raises:
        OSError: The file cannot be removed either.
    """
    if not path.exists():
        return
    try:
        with closing(_open(path)) as connection:
            rows = connection.execute("SELECT reading, path, documents FROM stamps").fetchall()
            gone = [row[:2] for row in rows if document_id in _ids(row[2])]
            connection.executemany("DELETE FROM stamps WHERE reading = ? AND path = ?", gone)
            connection.commit()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except _DAMAGED:
        discard(path)


def _ids(documents: object) -> set[str]:
    """Ids of documents as a row holds them; those of a damaged row are unknown."""
    try:
        return {str(name) for name, _ in json.loads(str(documents))}
    except (ValueError, TypeError):
        return set()


def _key(path: SourceFile) -> bytes:
    """A file's real path as bytes: its name need not be UTF-8; a link to itself has one too."""
    if isinstance(path, RemoteFile):
        return b"remote:" + path.id.encode("utf-8", "surrogateescape")
    return os.fsencode(os.path.realpath(path))


def _open(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return _prepared(sqlite3.connect(path, timeout=10.0))


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_SCHEMA)
        connection.commit()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
