"""Connections to one SQLite file, its tables, and its errors as ours.

``pairs`` (index specs) 1-n ``entries`` n-1 ``documents``; ``entries`` 1-n ``chunks`` n-1
``vectors``. An entry is a document under an index spec; its number is the *stamp* by which segments
know it, and is never reused. A document is stored once, however many specs index it, and deleted
with its last entry.
Vectors that no chunk has any more stay for a while as ``spare_vectors``, so that what was removed
by mistake is not embedded again.
Texts that UTF-8 cannot encode (lone surrogates) are stored as bytes.

A call borrows a connection and returns it at its end, so that any number of threads may use the
store and no two share a connection. Writers of one process also queue at a lock, which is fairer
and cheaper than SQLite's busy waiting.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..core import SchemaVersionError, StoreError, StoreFullError
from ..ledger import file_error, keep_log, reading_connection, writable
from ._store import StoreOptions

APPLICATION_ID = 0x52575354
"""``RWST``: identifies a file of ragwright among SQLite files."""

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    source TEXT NOT NULL,
    title TEXT NOT NULL,
    language TEXT NOT NULL,
    created TEXT NOT NULL,
    modified TEXT NOT NULL,
    media_type TEXT NOT NULL,
    structure TEXT NOT NULL,
    metadata TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX documents_by_name ON documents (name, hash);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pair INTEGER NOT NULL REFERENCES pairs (id),
    document INTEGER NOT NULL REFERENCES documents (id),
    name TEXT NOT NULL,
    root TEXT NOT NULL,
    UNIQUE (pair, name)
);
CREATE INDEX entries_by_document ON entries (document);
CREATE TABLE embedders (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    embedder INTEGER NOT NULL REFERENCES embedders (id),
    hash BLOB NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (embedder, hash)
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES entries (id),
    ordinal INTEGER NOT NULL,
    name TEXT NOT NULL,
    start INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    page INTEGER,
    pages TEXT NOT NULL,
    headings TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    terms BLOB NOT NULL,
    vector INTEGER REFERENCES vectors (id)
);
CREATE INDEX chunks_by_entry ON chunks (entry, ordinal);
CREATE INDEX chunks_by_vector ON chunks (vector) WHERE vector IS NOT NULL;
CREATE TABLE spare_vectors (
    vector INTEGER PRIMARY KEY REFERENCES vectors (id),
    since INTEGER NOT NULL
);
"""

STORE_VERSION = 4
"""Schema version of the SQLite store; a change of any table raises it."""


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, all in one transaction.

    Raises:
        SchemaVersionError: Another version of ragwright wrote the file.
        StoreError: The file belongs to another program.
    """
    if check_version(db, path):
        return
    with _write_transaction(db):
        if not check_version(db, path):  # no other process made them while this one waited
            for statement in filter(str.strip, _SCHEMA.split(";")):
                db.execute(statement)
            db.execute("INSERT INTO facts VALUES ('store', lower(hex(randomblob(8))))")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {STORE_VERSION}")


@contextmanager
def _write_transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def check_version(db: sqlite3.Connection, path: Path) -> bool:
    """Refuse files of other versions and programs; False for one without tables; reads only.

    Raises:
        SchemaVersionError: Another version of ragwright wrote the file.
        StoreError: The file belongs to another program.
    """
    # One statement, which sees one state.
    version, owner, tables = db.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if owner != APPLICATION_ID and (version or owner or tables):
        raise StoreError(
            "this SQLite file is not a ragwright store",
            where=str(path),
            hint="set store.path to another file",
        )
    if version not in (0, STORE_VERSION):
        raise SchemaVersionError(
            f"the store has schema version {version}; this ragwright reads {STORE_VERSION}",
            where=str(path),
            hint=f"move {path.parent} away, then run: ragwright ingest",
        )
    return bool(version)


_CACHE_KIB = 32_768
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class StoreFile:
    """A pool of connections to one file.

    Args:
        path: The file; made with mode 0600, its folders too, where it is missing.
        options: Waiting time, durability and size limit.

    A file that cannot be written is read as it is; if it is also missing, it is empty.
    """

    def __init__(self, path: Path, options: StoreOptions) -> None:
        self.path = path
        self._options = options
        self._free: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._pool = threading.Lock()
        self._writer = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._read_only = not writable(path)
        with self.typed_errors():
            if path.is_file() and path.stat().st_size:
                # Before the first write: the journal mode of a foreign file stays as it was.
                with closing(reading_connection(path, options.busy_seconds)) as db:
                    check_version(db, path)
            if not self._read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
                # SQLite gives the journal files the mode of the main file.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            with self.borrow() as db:
                prepare(db, path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection within one read transaction: all its statements see one state."""
        with self.typed_errors(), self.borrow() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection within one write transaction, committed at the end or rolled back."""
        with self._writer, self.typed_errors(), self.borrow() as db, _write_transaction(db):
            yield db

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """A connection outside of any transaction."""
        if self._closed:
            raise StoreError("the store is closed", where=str(self.path))
        with self._pool:
            if self._process != os.getpid():
                # A connection must not cross a fork: not used here, and not closed either.
                self._inherited += self._free
                self._free, self._process = [], os.getpid()
            db = self._free.pop() if self._free else None
        db = db or self._open_connection()
        try:
            yield db
        except BaseException:
            db.close()
            raise
        with self._pool:
            # a connection that reads without a lock is not kept: another process may write
            if not self._closed and not self._read_only:
                self._free.append(db)
                return
        db.close()

    def empty_log(self) -> bool:
        """Move the log into the file and truncate it; False if readers of an older state (waited
        for as long as for a lock) prevent it.
        """
        with self._writer, self.borrow() as db:
            try:
                return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED:
                    return False
                raise self._store_error(error) from error

    def _open_connection(self) -> sqlite3.Connection:
        options = self._options
        if self._read_only:
            return self._open_reading()
        db = sqlite3.connect(
            self.path, timeout=options.busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            keep_log(db, options.busy_seconds)
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            # Deleted content is overwritten: a forgotten document leaves no bytes in the file.
            db.execute("PRAGMA secure_delete = ON")
            if options.max_mb:
                page = int(db.execute("PRAGMA page_size").fetchone()[0])
                db.execute(f"PRAGMA max_page_count = {max(1, options.max_mb * 2**20 // page)}")
        except BaseException:
            db.close()
            raise
        return db

    def _open_reading(self) -> sqlite3.Connection:
        if self.path.exists():
            return reading_connection(self.path, self._options.busy_seconds)
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        prepare(db, self.path)
        db.execute("PRAGMA query_only = ON")
        return db

    def close(self) -> None:
        """Close every connection that is not in use; those in use close when returned."""
        with self._pool:
            self._closed = True
            free, self._free = self._free, []
        for db in free:
            db.close()

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Turn SQLite's errors and the system's into ours."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise self._store_error(error) from error
        except OSError as error:
            raise file_error(error, self.path) from error

    def _store_error(self, error: sqlite3.DatabaseError | ValueError) -> StoreError:
        failure = file_error(
            error,
            self.path,
            busy=f"it has written for over {self._options.busy_seconds:g} s: wait for it to end",
            damaged="restore it from a backup, or delete it and run: ragwright ingest (documents, "
            "chunks and vectors are made again)",
        )
        if isinstance(failure, StoreFullError) and self._options.max_mb:
            failure.what = "no space left for the store; what was committed before is intact"
            failure.hint = "free some space, or raise store.max_mb, and run the same command again"
        return failure
