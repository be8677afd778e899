"""File stamps: which files are unchanged since they were last read.

A cache: without it every file is read again, nothing else changes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import SourceError, StoreBusyError, StoreError, text_hash
from ...ingest import Failure, RemoteFile, SourceFile
from ...ledger import STAMP_TABLES, SqliteDatabase, discard, open_cache

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


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What was read of a file: its size, (id, content hash) of its documents, and warnings."""

    size: int
    documents: Sequence[tuple[str, str]]
    warnings: Sequence[Failure]


class Stamps:
    """Stamps of files per way of reading, in one SQLite file.

    Args:
        path: File to use; a damaged one is replaced, and if it cannot be written, nothing is
            remembered.
        reading: Key of the reader's settings and version; each has its own stamps.
    """

    def __init__(self, path: Path, reading: str) -> None:
        self._reading = reading
        self._open(path)

    def _open(self, path: Path) -> None:
        self._database = open_cache(path, STAMP_TABLES)
        read_only = self._database.read_only
        self._connection = self._database.in_memory() if read_only else self._database.connect()

    def _first(self, statement: str, values: tuple[str | int | bytes, ...]) -> Any:
        """The first row of a statement; a file that cannot be used is replaced first."""
        try:
            with self._database.explained():
                return self._connection.execute(statement, values).fetchone()
        except StoreBusyError:
            raise
        except StoreError:
            self._connection.close()
            discard(self._database.path)
            self._open(self._database.path)
        with self._database.explained():
            return self._connection.execute(statement, values).fetchone()

    def known(self, path: SourceFile) -> FileRecord | None:
        """What was read of an unchanged file, None if it is new."""
        row = self._first(
            "SELECT size, modified, changed, taken, documents, warnings FROM stamps "
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
            documents = [(str(name), str(content)) for name, content in json.loads(row[4])]
            return FileRecord(row[0], documents, [_warning(*said) for said in json.loads(row[5])])
        except (ValueError, TypeError):
            return None  # damaged: the file is read again

    def put(
        self,
        path: SourceFile,
        stamp: Stamp,
        documents: Sequence[tuple[str, str]],
        warnings: Sequence[Failure],
    ) -> None:
        """Remember a file that was read; the stamp must have been taken before reading."""
        said = [(w.source, w.error.what, w.error.where, w.error.hint) for w in warnings]
        if not self._connection.in_transaction:
            self._first("BEGIN IMMEDIATE", ())
        self._first(
            "INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._reading,
                _key(path),
                stamp.size,
                stamp.modified,
                stamp.changed,
                stamp.taken,
                json.dumps(list(documents)),
                json.dumps(said),
            ),
        )

    def commit(self) -> None:
        """Commit the last entries; a busy or damaged file only costs time."""
        if self._connection.in_transaction:
            with suppress(StoreError), self._database.explained():
                self._connection.execute("COMMIT")
        if self._connection.in_transaction:
            with suppress(StoreError), self._database.explained():
                self._connection.execute("ROLLBACK")

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
        database = SqliteDatabase(path, STAMP_TABLES)
        with database.transaction() as connection:
            rows = connection.execute("SELECT reading, path, documents FROM stamps").fetchall()
            gone = [row[:2] for row in rows if document_id in _ids(row[2])]
            connection.executemany("DELETE FROM stamps WHERE reading = ? AND path = ?", gone)
        with closing(database.connect()) as connection:
            database.scrub(connection)
    except StoreError:
        discard(path)


def _ids(documents: object) -> set[str]:
    """Ids of documents as a row holds them; those of a damaged row are unknown."""
    try:
        return {str(name) for name, _ in json.loads(str(documents))}
    except (ValueError, TypeError):
        return set()


def _warning(source: str, what: str, where: str | None, hint: str | None) -> Failure:
    return Failure(source, SourceError(what, where=where, hint=hint), warning=True)


def _key(path: SourceFile) -> bytes:
    """A file's real path as bytes: its name need not be UTF-8; a link to itself has one too."""
    if isinstance(path, RemoteFile):
        return b"remote:" + path.id.encode("utf-8", "surrogateescape")
    return os.fsencode(os.path.realpath(path))
