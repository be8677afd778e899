"""Statements of the SQLite store for the encodings of chunks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from ._kept import Encodings, EncodingSize
from ._prepare import as_value

if TYPE_CHECKING:
    from ._store import IndexSpec

_BLOCK = 400
"""Values bound to one statement."""

_ENCODER = "(SELECT id FROM encoders WHERE identity = ?)"
_PAIR = "(SELECT id FROM pairs WHERE key = ?)"


def read_encodings(
    db: sqlite3.Connection, encoder: str, stamps: Sequence[int]
) -> Iterator[tuple[int, Encodings]]:
    """(Stamp, encodings of its chunks) of the documents that are encoded, in order of stamps."""
    for start in range(0, len(stamps), _BLOCK):
        block = stamps[start : start + _BLOCK]
        cursor = db.execute(
            f"SELECT entry, sizes, data FROM encodings WHERE encoder = {_ENCODER} "  # noqa: S608
            f"AND entry IN ({','.join('?' * len(block))}) ORDER BY entry",
            (as_value(encoder), *block),
        )
        for stamp, sizes, data in cursor:
            ends = [0, *accumulate(np.frombuffer(sizes, np.uint32).tolist())]
            yield stamp, tuple(data[first:end] for first, end in pairwise(ends))


def stamps_without(db: sqlite3.Connection, pair: IndexSpec, encoder: str) -> list[int]:
    """Stamps of the pair's documents of which an encoder has not encoded every chunk, ascending."""
    cursor = db.execute(
        f"SELECT id FROM entries WHERE pair = {_PAIR} AND NOT EXISTS (SELECT 1 FROM encodings "  # noqa: S608
        f"WHERE entry = entries.id AND encoder = {_ENCODER} AND length(sizes) = "
        "4 * (SELECT count(*) FROM chunks WHERE entry = entries.id)) ORDER BY id",
        (pair.key, as_value(encoder)),
    )
    return [stamp for (stamp,) in cursor]


def write_encodings(
    db: sqlite3.Connection, encoder: str, encodings: Mapping[int, Encodings]
) -> None:
    """Store the encodings of documents by stamp; those of documents that are gone are left out."""
    identity = as_value(encoder)
    db.execute("INSERT OR IGNORE INTO encoders (identity) VALUES (?)", (identity,))
    db.executemany(
        f"INSERT OR REPLACE INTO encodings (encoder, entry, sizes, data) SELECT {_ENCODER}, id, "  # noqa: S608
        "?, ? FROM entries WHERE id = ?",
        (
            (identity, np.array([len(p) for p in pieces], np.uint32).tobytes(), b"".join(pieces), n)
            for n, pieces in encodings.items()
        ),
    )


def encoding_size(db: sqlite3.Connection, pair: IndexSpec, encoder: str) -> EncodingSize:
    """Documents, chunks and bytes that an encoder has encoded of a pair."""
    documents, sizes, data = db.execute(
        "SELECT count(*), coalesce(sum(length(n.sizes)), 0), coalesce(sum(length(n.data)), 0) "  # noqa: S608
        f"FROM encodings n JOIN entries e ON e.id = n.entry WHERE e.pair = {_PAIR} "
        f"AND n.encoder = {_ENCODER}",
        (pair.key, as_value(encoder)),
    ).fetchone()
    missing = len(stamps_without(db, pair, encoder))
    return EncodingSize(documents, missing, sizes // 4, data)


def copy_encodings(db: sqlite3.Connection, old: int, new: int) -> None:
    """Give a document that is an entry again, under a new stamp, the encodings of its old one."""
    db.execute(
        "INSERT INTO encodings (encoder, entry, sizes, data) "
        "SELECT encoder, ?, sizes, data FROM encodings WHERE entry = ?",
        (new, old),
    )


def drop_encodings(db: sqlite3.Connection, stamp: int) -> None:
    """Delete the encodings of a document, of every encoder."""
    db.execute("DELETE FROM encodings WHERE entry = ?", (stamp,))


def forget_encodings(db: sqlite3.Connection, encoder: str) -> None:
    """Delete the encodings of an encoder, of every document."""
    db.execute(f"DELETE FROM encodings WHERE encoder = {_ENCODER}", (as_value(encoder),))  # noqa: S608
