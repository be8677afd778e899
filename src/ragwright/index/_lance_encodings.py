"""Encodings of chunks in a Lance store: a row per chunk, beside the tables of a pair.

Rows are written after their document is visible and carry its stamp, so they belong to the same
text wherever the stamp is found: among the present documents, or in a kept state. They are deleted
when neither has the stamp any more. Postings (``_lance_sparse``) are derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import index
from ..core import value_hash
from . import _lance_tables as lance, _lance_upkeep as upkeep
from ._kept import Encodings, EncodingSize
from ._lance_encoded import EncodedRows, EncodedState, Postings, Stamps, add_postings
from ._lance_history import LanceHistory
from ._lance_open import OpenTables
from ._lance_state import keep_version, stamps_of, tag_of
from ._store import IndexSpec

_JOINED = 50
"""Writes of a process after which small files are joined."""

_STALE = 4
"""Postings are made anew where more than one of so many documents in them is gone."""


def encoder_key(encoder: str) -> str:
    """What the tables call an encoder: a hash of its identity."""
    return value_hash([encoder])[:16]


def of_encoder(encoder: str) -> str:
    """SQL for the rows of an encoder."""
    return f"encoder = {lance.literal(encoder_key(encoder))}"


class LanceEncodings:
    """The encodings of a store.

    Args:
        tables: The open tables of the store.
        history: Its kept states.
        where: The store, for errors.
    """

    def __init__(self, tables: OpenTables, history: LanceHistory, where: str) -> None:
        self._tables, self._history, self._where = tables, history, where
        self._writes = 0

    def stamps_without(self, pair: IndexSpec, encoder: str) -> list[int]:
        """Stamps of the documents of which an encoder has not encoded every chunk, ascending."""
        documents = self._tables.opened(f"documents_{pair.key}")
        if documents is None:
            return []
        stamps, chunks = _sizes(documents)
        table = self._tables.opened(f"encodings_{pair.key}")
        wrong = chunks != (0 if table is None else _encoded_chunks(table, encoder, stamps))
        missing: list[int] = stamps[wrong].tolist()
        return missing

    def _present(self, pair: IndexSpec) -> Stamps:
        table = self._tables.opened(f"documents_{pair.key}")
        return np.empty(0, np.int64) if table is None else _sizes(table)[0]

    def put(self, pair: IndexSpec, encoder: str, encodings: Mapping[int, Encodings]) -> None:
        """Store the encodings of the pair's documents by stamp; other stamps are left out."""
        documents = self._tables.opened(f"documents_{pair.key}")
        present: set[int] = set()
        for condition in lance.one_of("stamp", encodings) if documents is not None else ():
            present |= set(stamps_of(documents, condition).tolist())
        rows = [
            (stamp, ordinal, data)
            for stamp, pieces in encodings.items()
            if stamp in present
            for ordinal, data in enumerate(pieces)
        ]
        if not rows:
            return
        table = self._tables.created(f"encodings_{pair.key}", lance.encodings_schema())
        self._delete_of(table, encoder, present)
        stamps, ordinals, data = map(list, zip(*rows, strict=True))
        columns = {
            "encoder": [encoder_key(encoder)] * len(rows),
            "stamp": stamps,
            "ordinal": ordinals,
            "size": list(map(len, data)),
            "data": data,
        }
        added = lance.arrow_table(columns, lance.encodings_schema())
        lance.retried(lambda: table.add(added), self._where)
        self._writes += 1
        if self._writes % _JOINED == 0:
            with suppress(OSError, RuntimeError, ValueError):  # a later one, or maintenance
                table.optimize()

    def _delete_of(self, table: Any, encoder: str, stamps: set[int]) -> None:
        """Delete what an encoder has encoded of documents, with its postings, before it is
        written again.
        """
        for condition in lance.one_of("stamp", stamps):
            sql = lance.both(of_encoder(encoder), condition)
            if table.count_rows(sql):
                lance.retried(lambda s=sql: table.delete(s), self._where)  # type: ignore[misc]
                for postings in self._postings_tables():
                    sql = of_encoder(encoder)
                    lance.retried(lambda t=postings, s=sql: t.delete(s), self._where)  # type: ignore[misc]

    def _postings_tables(self) -> list[Any]:
        names = [name for name in self._tables.names() if name.startswith("postings_")]
        return [table for table in map(self._tables.opened, names) if table is not None]

    def forget_encoder(self, pair: IndexSpec, encoder: str) -> None:
        """Delete what an encoder has encoded of a pair."""
        for table in self.tables(pair):
            lance.retried(lambda t=table: t.delete(of_encoder(encoder)), self._where)  # type: ignore[misc]

    def size(self, pair: IndexSpec, encoder: str) -> EncodingSize:
        """What an encoder has encoded of a pair."""
        present = self._present(pair)
        table = self._tables.opened(f"encodings_{pair.key}")
        chunks = size = 0
        encoded = np.empty(0, np.int64)
        if table is not None:
            rows = lance.select(table, ["stamp", "size"], of_encoder(encoder))
            stamps = rows["stamp"].to_numpy()
            live = np.isin(stamps, present)
            encoded = np.unique(stamps[live])
            chunks = int(np.count_nonzero(live))
            size = int(rows["size"].to_numpy()[live].sum(dtype=np.int64))
        return EncodingSize(len(encoded), len(present) - len(encoded), chunks, size)

    def tables(self, pair: IndexSpec) -> list[Any]:
        """The tables of encodings and postings that exist."""
        names = (f"encodings_{pair.key}", f"postings_{pair.key}")
        return [table for table in map(self._tables.opened, names) if table is not None]

    def sweep(self, pair: IndexSpec, *, purge: bool = False) -> None:
        """Delete the encodings of documents that are neither present nor in a kept state.

        With ``purge`` postings are deleted too, since they hold weights of removed documents; the
        next search makes them anew.
        """
        table = self._tables.opened(f"encodings_{pair.key}")
        if table is None:
            return
        encoded = np.unique(stamps_of(table))  # read first: a writer encodes what is present
        held = np.union1d(self._present(pair), self._history.held(pair))
        lance.delete_rows(table, "stamp", np.setdiff1d(encoded, held).tolist(), self._where)
        postings = self._tables.opened(f"postings_{pair.key}")
        if postings is None:
            return
        if purge:
            lance.retried(lambda: postings.delete("true"), self._where)
            return
        for row in lance.select(postings, ["block", "places"], "term = -1").to_pylist():
            posted = np.unique(np.frombuffer(row["places"], np.int64))
            if np.count_nonzero(~np.isin(posted, held)) * _STALE > len(posted):
                sql = f"block = {row['block']}"
                lance.retried(lambda s=sql: postings.delete(s), self._where)  # type: ignore[misc]

    def settle(self, pair: IndexSpec, indexed: int) -> None:
        """Drop what is not needed, join small files, and index the stamps of many rows."""
        self.sweep(pair)
        tables = self.tables(pair)
        if not tables:
            return
        upkeep.compact(tables, self._where)
        upkeep.index_stamps(tables[0], indexed, self._where)
        upkeep.retire(tables, self._where)

    def rows(self, pair: IndexSpec, encoder: str, documents: Any, snapshot: str) -> EncodedRows:
        """What an encoder has encoded of a state, at one version of the table.

        Args:
            pair: The pair.
            encoder: Identity of the encoder.
            documents: The table of documents at the version of the state.
            snapshot: Name of the state, under which the version is kept.

        Raises:
            StoreError: A document has another number of encodings than chunks.
        """
        stamps, chunks = _sizes(documents)
        missing = int(chunks.sum())
        if self._tables.opened(f"encodings_{pair.key}") is not None:
            table = self._tables.fresh(f"encodings_{pair.key}")
            table.checkout(table.version)
            missing = _missing_chunks(table, encoder, stamps, chunks)
            if not missing:
                keep_version(table, snapshot)
            else:
                former = self._tables.fresh(f"encodings_{pair.key}")
                with suppress(OSError, RuntimeError, ValueError):
                    former.checkout(tag_of(snapshot))
                    left = _missing_chunks(former, encoder, stamps, chunks)
                    table, missing = (former, 0) if not left else (table, missing)
            return EncodedRows(table, of_encoder(encoder), stamps, chunks, missing)
        return EncodedRows(None, of_encoder(encoder), stamps, chunks, missing)

    def posted(self, pair: IndexSpec, rows: EncodedRows, most: int) -> EncodedState:
        """The encodings with their postings, which are written where many chunks have none.

        Args:
            pair: The pair.
            rows: The encodings.
            most: Chunks up to which encodings are read instead.
        """
        name = f"postings_{pair.key}"
        postings = self._postings(name, rows)
        missing = rows.unposted(postings)
        if rows.chunks[np.isin(rows.stamps, missing)].sum() <= most:
            return EncodedState(rows, postings)
        with suppress(OSError, RuntimeError, ValueError):  # reading needs no right to write
            table = self._tables.created(name, lance.postings_schema())
            add_postings(table, rows, missing, self._where)
            postings = self._postings(name, rows)
        return EncodedState(rows, postings)

    def _postings(self, name: str, rows: EncodedRows) -> Postings | None:
        if self._tables.opened(name) is None:
            return None
        table = self._tables.fresh(name)
        table.checkout(table.version)
        return Postings.of(table, rows.sql)


def _sizes(documents: Any) -> tuple[Stamps, NDArray[np.int32]]:
    """Stamps of the documents with chunks, ascending, and the number of chunks of each."""
    sizes = lance.select(documents, ["stamp", "chunks"], "chunks > 0")
    stamps, chunks = sizes["stamp"].to_numpy(), sizes["chunks"].to_numpy()
    order = np.argsort(stamps)
    return stamps[order], chunks[order]


def _encoded_chunks(table: Any, encoder: str, stamps: Stamps) -> NDArray[np.int64]:
    """Encodings of each document of these stamps, ascending."""
    encoded = stamps_of(table, of_encoder(encoder))
    places = np.searchsorted(stamps, encoded)
    known = places < len(stamps)
    known[known] = stamps[places[known]] == encoded[known]
    return np.bincount(places[known], minlength=len(stamps))


def _missing_chunks(table: Any, encoder: str, stamps: Stamps, chunks: NDArray[Any]) -> int:
    """Chunks of the documents with these stamps that are not encoded."""
    counts = _encoded_chunks(table, encoder, stamps)
    wrong = np.flatnonzero((counts > 0) & (counts != chunks))
    if len(wrong):
        raise index.wrong_encodings(int(counts[wrong[0]]), int(chunks[wrong[0]]))
    return int(chunks[counts == 0].sum())
