"""Tables of the SQLite store and their migrations.

``pairs`` 1-n ``entries`` n-1 ``documents``; ``entries`` 1-n ``chunks`` n-1 ``vectors``. An
entry is a document under a pair; its number is the *stamp* by which segments know it, and is never
reused. ``kept_states`` are former states, and ``retired`` the entries that only they hold; see
``_history.py``. A document is stored once, however many pairs index it, and deleted with its last
entry. Texts that UTF-8 cannot encode (lone surrogates) are stored as bytes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ..core import SchemaVersionError, StoreError
from ..ledger import back_up

APPLICATION_ID = 0x52575354
"""``RWST``: identifies a file of ragwright among SQLite files."""

_FIRST = """
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
"""

_SECOND = """
CREATE TABLE kept_states (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pair INTEGER NOT NULL REFERENCES pairs (id),
    last INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    note TEXT NOT NULL,
    settings TEXT NOT NULL
);
CREATE TABLE retired (
    stamp INTEGER PRIMARY KEY,
    pair INTEGER NOT NULL REFERENCES pairs (id),
    document INTEGER NOT NULL REFERENCES documents (id),
    name TEXT NOT NULL,
    root TEXT NOT NULL,
    died INTEGER NOT NULL
);
CREATE INDEX retired_by_document ON retired (document);
CREATE INDEX retired_by_name ON retired (name);
"""

STEPS: tuple[str, ...] = (_FIRST, _SECOND)
"""Statements that migrate from each version to the next; the number of steps is the version."""


def prepare(db: sqlite3.Connection, path: Path, steps: Sequence[str] = STEPS) -> None:
    """Bring a file to the present version: make the tables, or back up and migrate.

    The backup is next to the file, named after its version.

    Raises:
        SchemaVersionError: A newer ragwright wrote the file.
        StoreError: The file belongs to another program.
    """
    db.execute("BEGIN")
    try:
        version = checked_version(db, path, steps)
    finally:
        db.rollback()
    if version == len(steps):
        return
    if version:
        back_up(db, path, version)
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated it while we waited for the lock.
        version = checked_version(db, path, steps)
        for step in steps[version:]:
            for statement in step.split(";"):
                if statement.strip():
                    db.execute(statement)
        if version == 0:
            db.execute("INSERT INTO facts VALUES ('store', lower(hex(randomblob(8))))")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def checked_version(db: sqlite3.Connection, path: Path, steps: Sequence[str] = STEPS) -> int:
    """Version of a file, 0 for one without tables; reads only.

    Raises:
        SchemaVersionError: A newer ragwright wrote the file.
        StoreError: The file belongs to another program.
    """
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    owner = int(db.execute("PRAGMA application_id").fetchone()[0])
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (version or owner or tables):
        raise StoreError(
            "this SQLite file is not a ragwright store",
            where=str(path),
            hint="set store.path to another file",
        )
    if version > len(steps):
        raise SchemaVersionError(
            f"the store has schema version {version}, this ragwright supports {len(steps)}",
            where=str(path),
            hint="pip install --upgrade ragwright",
        )
    return version
