"""Statements of the SQLite store: reading rows and writing batches."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Document
from ._prepare import (
    COLUMNS,
    DIGEST_MODULUS,
    ReadyChunk,
    ReadyDocument,
    decode_text,
    document_from,
    encode_text,
    entry_digest,
    pack_standing,
    structure_of,
    total_digest,
    unpack_standing,
)
from ._store import IndexSpec, StoredChunk, StoredDocument, WriteCounts, pages_from, read_metadata

_BLOCK = 400
"""Values bound to one statement."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A stored document under an index spec."""

    stamp: int
    document: int
    name: str
    hash: str
    source: str
    root: str

    def holds(self, document: Document, hash_: str) -> bool:
        """True if storing the document would change nothing."""
        return self.hash == hash_ and self.source == document.source


def _value_blocks(values: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(values)
    while block := list(islice(iterator, _BLOCK)):
        yield block


def _placeholders(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


def stamps(db: sqlite3.Connection, index_spec: IndexSpec) -> NDArray[np.int64]:
    """Stamps of the index spec's documents, ascending."""
    cursor = db.execute(
        "SELECT id FROM entries WHERE pair = (SELECT id FROM pairs WHERE key = ?)",
        (index_spec.key,),
    )
    return np.sort(np.fromiter((row[0] for row in cursor), np.int64))


def entries(
    db: sqlite3.Connection, index_spec: IndexSpec, names: Sequence[str]
) -> Mapping[str, StoredEntry]:
    """The entries of those documents that the index spec holds, by document id."""
    by_id: dict[str, StoredEntry] = {}
    for block in _value_blocks(map(encode_text, names)):
        rows = db.execute(
            "SELECT e.id, e.document, e.name, d.hash, d.source, e.root "  # noqa: S608
            "FROM entries e JOIN documents d ON d.id = e.document "
            "WHERE e.pair = (SELECT id FROM pairs WHERE key = ?) "
            f"AND e.name IN ({_placeholders(block)})",
            (index_spec.key, *block),
        )
        for stamp, document, name, hash_, source, root in rows:
            key = decode_text(name)
            by_id[key] = StoredEntry(
                stamp, document, key, hash_, decode_text(source), decode_text(root)
            )
    return by_id


def vectors(
    db: sqlite3.Connection, embedder: str, keys: Sequence[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """(Key, float32 bytes) of the vectors that are stored under an embedder."""
    for block in _value_blocks(keys):
        yield from db.execute(
            "SELECT hash, data FROM vectors "  # noqa: S608
            "WHERE embedder = (SELECT id FROM embedders WHERE identity = ?) "
            f"AND hash IN ({_placeholders(block)})",
            (encode_text(embedder), *block),
        )


def replace_vectors(
    db: sqlite3.Connection, embedder: str, data: Mapping[bytes, bytes], index_specs: Sequence[str]
) -> bool:
    """Overwrite stored vectors; the index specs with these keys get a new digest.

    Returns:
        Whether any vector differed.
    """
    stored = vectors(db, embedder, list(data))
    differ = [(data[key], embedder, key) for key, old in stored if old != data[key]]
    if not differ:
        return False
    db.executemany(
        "UPDATE vectors SET data = ? "
        "WHERE embedder = (SELECT id FROM embedders WHERE identity = ?) AND hash = ?",
        ((new, encode_text(name), key) for new, name, key in differ),
    )
    # A digest covers names and texts; a change of vectors is added to it for good.
    added = entry_digest("vectors", blake2b(b"".join(new for new, *_ in differ)).hexdigest(), "")
    for key in index_specs:
        (old,) = db.execute("SELECT digest FROM pairs WHERE key = ?", (key,)).fetchone()
        db.execute(
            "UPDATE pairs SET digest = ? WHERE key = ?", (total_digest((int(old, 16), added)), key)
        )
    return True


def documents_with_chunks(
    db: sqlite3.Connection, index_spec: IndexSpec, stamps: NDArray[np.int64]
) -> Iterator[StoredDocument]:
    """The documents with these stamps and their chunks, in the order of the stamps."""
    for block in _value_blocks(stamps.tolist()):
        rows = db.execute(
            f"SELECT e.id, {', '.join(f'd.{column}' for column in COLUMNS)} "  # noqa: S608
            "FROM entries e JOIN documents d ON d.id = e.document "
            f"WHERE e.id IN ({_placeholders(block)}) ORDER BY e.id",
            block,
        )
        for stamp, *columns in rows:
            cursor = db.execute(
                'SELECT c.name, c.start, c."end", c.page, c.pages, c.headings, c.metadata, '
                "c.terms, v.data FROM chunks c LEFT JOIN vectors v ON v.id = c.vector "
                "WHERE c.entry = ? ORDER BY c.ordinal",
                (stamp,),
            )
            chunks = [
                StoredChunk(
                    id=decode_text(name),
                    start=start,
                    end=end,
                    page=page,
                    pages=pages_from(pages),
                    headings=standing[0],
                    metadata=read_metadata(json.loads(metadata)) if metadata != "{}" else {},
                    terms=terms,
                    vector=None if data is None else np.frombuffer(data, np.float32),
                    head=standing[1],
                )
                for name, start, end, page, pages, headings, metadata, terms, data in cursor
                for standing in (unpack_standing(headings),)
            ]
            yield StoredDocument(stamp, document_from(columns), chunks)


_SPARE_DAYS = 30
"""Days for which vectors stay after the last chunk that had them."""


def drop_spare_vectors(db: sqlite3.Connection, days: int = _SPARE_DAYS) -> None:
    """Delete the vectors that no chunk has had for so many days."""
    unused = "NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = spare_vectors.vector)"
    db.execute(f"DELETE FROM spare_vectors WHERE NOT ({unused})")  # noqa: S608
    old = "since <= CAST(strftime('%s', 'now') AS INTEGER) - ?"
    seconds = (days * 86_400,)
    db.execute(
        f"DELETE FROM vectors WHERE id IN (SELECT vector FROM spare_vectors WHERE {old})",  # noqa: S608
        seconds,
    )
    db.execute(f"DELETE FROM spare_vectors WHERE {old}", seconds)  # noqa: S608


class BatchWriter:
    """Writes one batch under one index spec, within a transaction that its caller opened."""

    def __init__(self, db: sqlite3.Connection, index_spec: IndexSpec) -> None:
        self._db = db
        row = db.execute("SELECT id, digest FROM pairs WHERE key = ?", (index_spec.key,)).fetchone()
        if row is None:
            settings = json.dumps(asdict(index_spec))
            cursor = db.execute(
                "INSERT INTO pairs (key, settings, digest) VALUES (?, ?, ?)",
                (index_spec.key, settings, total_digest(())),
            )
            row = (cursor.lastrowid, total_digest(()))
        self._index_spec, self._digest = int(row[0]), int(row[1], 16)
        # An empty index spec gets the present length of the model's vectors.
        db.execute(
            "UPDATE pairs SET settings = ? WHERE id = ? "
            "AND NOT EXISTS (SELECT 1 FROM entries WHERE pair = pairs.id)",
            (json.dumps(asdict(index_spec)), self._index_spec),
        )
        embedder = (encode_text(index_spec.embedder),)
        db.execute("INSERT OR IGNORE INTO embedders (identity) VALUES (?)", embedder)
        query = "SELECT id FROM embedders WHERE identity = ?"
        self._embedder = int(db.execute(query, embedder).fetchone()[0])
        self._orphans: set[int] = set()
        self._counts: Counter[str] = Counter()

    def keep(self, entry: StoredEntry, root: str) -> None:
        """Count an unchanged document; if its root changed, store the new one."""
        if entry.root != root:
            self._db.execute(
                "UPDATE entries SET root = ? WHERE id = ?", (encode_text(root), entry.stamp)
            )
        self._counts["unchanged"] += 1

    def put(self, item: ReadyDocument, old: StoredEntry | None, root: str) -> None:
        """Write a new document, or a changed one that replaces the old."""
        if old is not None:
            self._delete_entry(old)
        name = encode_text(item.document.id)
        cursor = self._db.execute(
            "INSERT INTO entries (pair, document, name, root) VALUES (?, ?, ?, ?)",
            (self._index_spec, self._put_document(item), name, encode_text(root)),
        )
        self._put_chunks(int(cursor.lastrowid or 0), item.chunks)
        self._digest += entry_digest(item.document.id, item.hash, item.document.source)
        self._counts["added" if old is None else "changed"] += 1

    def drop(self, entry: StoredEntry) -> None:
        """Remove a document from the index spec."""
        self._delete_entry(entry)
        self._counts["removed"] += 1

    def finish(self) -> WriteCounts:
        """Write the digest and return the counts; vectors that no chunk has any more are spare."""
        self._db.executemany(
            "INSERT OR REPLACE INTO spare_vectors SELECT ?1, strftime('%s', 'now') "
            "WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE vector = ?1)",
            ((vector,) for vector in sorted(self._orphans)),
        )
        self._db.execute(
            "UPDATE pairs SET digest = ? WHERE id = ?",
            (f"{self._digest % DIGEST_MODULUS:032x}", self._index_spec),
        )
        return WriteCounts(**self._counts)

    def _put_document(self, item: ReadyDocument) -> int:
        """Number of the document's row, which another index spec may have written already."""
        document = item.document
        content = (encode_text(document.id), item.hash, encode_text(document.source))
        query = "SELECT id FROM documents WHERE name = ? AND hash = ? AND source = ?"
        stored = self._db.execute(query, content).fetchone()
        if stored is not None:
            return int(stored[0])
        cursor = self._db.execute(
            "INSERT INTO documents (name, hash, source, title, language, created, modified, "
            "media_type, structure, metadata, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *content,
                encode_text(document.title),
                document.language,
                document.created,
                document.modified,
                document.media_type,
                structure_of(document),
                json.dumps(dict(document.metadata)),
                encode_text(document.text),
            ),
        )
        return int(cursor.lastrowid or 0)

    def _put_chunks(self, stamp: int, chunks: Sequence[ReadyChunk]) -> None:
        self._counts["chunks_added"] += len(chunks)
        self._db.executemany(
            "INSERT OR IGNORE INTO vectors (embedder, hash, data) VALUES (?, ?, ?)",
            ((self._embedder, c.vector_key, c.vector) for c in chunks if c.vector_key is not None),
        )
        self._db.executemany(
            'INSERT INTO chunks (entry, ordinal, name, start, "end", page, pages, headings, '
            "metadata, tokens, terms, vector) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
            "(SELECT id FROM vectors WHERE embedder = ? AND hash = ?))",
            (
                (
                    stamp,
                    chunk.ordinal,
                    encode_text(chunk.id),
                    chunk.span.start,
                    chunk.span.end,
                    chunk.page,
                    json.dumps(chunk.pages) if chunk.pages else "[]",
                    pack_standing(chunk),
                    json.dumps(dict(chunk.metadata)) if chunk.metadata else "{}",
                    chunk.tokens,
                    ready.terms,
                    self._embedder,
                    ready.vector_key,
                )
                for ready in chunks
                for chunk in (ready.chunk,)
            ),
        )

    def _delete_entry(self, entry: StoredEntry) -> None:
        """Delete an entry, its chunks, and its document if no other entry needs it."""
        db = self._db
        used = db.execute(
            "SELECT vector FROM chunks WHERE entry = ? AND vector IS NOT NULL", (entry.stamp,)
        )
        self._orphans.update(row[0] for row in used)
        removed = db.execute("DELETE FROM chunks WHERE entry = ?", (entry.stamp,)).rowcount
        db.execute("DELETE FROM entries WHERE id = ?", (entry.stamp,))
        db.execute(
            "DELETE FROM documents WHERE id = ? "
            "AND NOT EXISTS (SELECT 1 FROM entries WHERE document = documents.id)",
            (entry.document,),
        )
        self._digest -= entry_digest(entry.name, entry.hash, entry.source)
        self._counts["chunks_removed"] += removed
