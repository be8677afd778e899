"""File stamps: which files are as they were when they were last read.

A cache: without it every file is read again, and nothing else changes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core import file_error, writable

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

_RACY_NS = 2_000_000_000
"""A file changed within this time of being read may change again under the same times."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and times of a file when it was read, and when that was (nanoseconds)."""

    size: int
    modified: int
    changed: int
    taken: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """The stamp of a file as it is now."""
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, time.time_ns())


class Stamps:
    """Stamps of files per way of reading, in one SQLite file.

    Args:
        path: File to use; one that cannot be used is started afresh, and where it cannot be
            written either, nothing is remembered.
        reading: Names the reader's settings and version: other settings, other stamps.
    """

    def __init__(self, path: Path, reading: str) -> None:
        self._reading = reading
        if not writable(path):
            self._connection = _prepared(sqlite3.connect(":memory:"))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = _open(path)
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            try:
                self._connection = _open(path)
            except sqlite3.Error as error:
                raise file_error(error, path) from error

    def documents(self, path: Path) -> tuple[int, tuple[tuple[str, str], ...]] | None:
        """Size and (document id, content hash) of an unchanged file, None where it is new."""
        row = self._connection.execute(
            "SELECT size, modified, changed, taken, documents FROM stamps "
            "WHERE reading = ? AND path = ?",
            (self._reading, _key(path)),
        ).fetchone()
        if row is None:
            return None
        try:
            now = Stamp.of(path)
        except OSError:
            return None
        if (row[0], row[1], row[2]) != (now.size, now.modified, now.changed):
            return None
        if row[3] - max(row[1], row[2]) < _RACY_NS:
            return None
        return row[0], tuple((name, content) for name, content in json.loads(row[4]))

    def put(self, path: Path, stamp: Stamp, documents: Sequence[tuple[str, str]]) -> None:
        """Remember a file that was read; the stamp must have been taken before reading."""
        self._connection.execute(
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
        """Make what was put last; a busy file is no fault, the stamps are a cache."""
        try:
            self._connection.commit()
        except sqlite3.OperationalError:
            self._connection.rollback()

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._connection.close()


def _key(path: Path) -> bytes:
    """A file's real path as bytes: its name need not be UTF-8; a link to itself has one too."""
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
