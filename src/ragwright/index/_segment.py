"""An immutable part of an index: rows with their texts, postings, vectors and fields.

A segment never changes. New rows form a new segment; removed rows are marked dead by the view. Rows
of one document are adjacent, and a document is identified by its *stamp*: a number that the store
gives to each document written under a pair, never twice.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Head, Hit
from ._arrays import Array, Arrays, Blob, Packer, unpack
from ._fields import FieldIndex, FieldsBuilder, chunk_fields, open_fields
from ._postings import Postings, PostingsBuilder, unpack_terms
from ._store import StoredDocument, read_metadata, show_metadata

FORMAT = 3
"""Version of the layout; a saved segment of another version is built anew."""

MAX_ROWS = 100_000
MAX_BYTES = 256 * 2**20
"""Bounds of one segment, so that building one takes bounded memory."""


def build_segments(documents: Iterable[StoredDocument], dimensions: int) -> Iterator[Arrays]:
    """Segments of documents, each as large as its bounds allow, one in memory at a time.

    While one is built, memory holds its own arrays and about half of their size again.
    """
    builder = _Builder(dimensions)
    for document in documents:
        if builder.full(document):
            # Without a variable: requesting the next segment must not keep this one alive.
            yield builder.finish()
            builder = _Builder(dimensions)
        builder.add(document)
    if builder.documents:
        yield builder.finish()


class _Builder:
    """Collects the documents of one segment; keeps bytes and numbers, no object per row."""

    def __init__(self, dimensions: int) -> None:
        self.documents = 0
        self._dimensions = dimensions
        self._size = 0
        self._sizes, self._stamps = array("q"), array("q")
        self._columns = {name: array("i") for name in ("document", "start", "end", "page")}
        self._packs = {name: Packer() for name in ("ids", "names", "heads", "extras", "texts")}
        self._postings = PostingsBuilder()
        self._fields = FieldsBuilder()
        self._vectors = bytearray()

    @property
    def rows(self) -> int:
        """Rows so far."""
        return len(self._columns["document"])

    def full(self, document: StoredDocument) -> bool:
        """True if a further document would exceed the bounds."""
        over = self.rows + len(document.chunks) > MAX_ROWS
        return self.documents > 0 and (over or self._size + document.size > MAX_BYTES)

    def add(self, document: StoredDocument) -> None:
        """A document with its chunks."""
        packs, columns = self._packs, self._columns
        packs["heads"].add(_head_json(document))
        packs["names"].add(_raw_bytes(document.id))
        self._stamps.append(document.stamp)
        self._sizes.append(len(document.chunks))
        for chunk in document.chunks:
            fields = chunk_fields(document, chunk.metadata, chunk.headings, chunk.page)
            self._fields.add(self.rows, fields)
            packs["ids"].add(_raw_bytes(chunk.id))
            packs["texts"].add(_raw_bytes(document.text[chunk.start : chunk.end]))
            extra: list[object] = [chunk.headings, dict(chunk.metadata), chunk.pages]
            if chunk.head is not None:
                extra.append(chunk.head.packed())
            packs["extras"].add(json.dumps(extra).encode() if any(extra) else b"")
            place = (self.documents, chunk.start, chunk.end, chunk.page or 0)
            for column, number in zip(columns.values(), place, strict=True):
                column.append(number)
            self._postings.add(unpack_terms(chunk.terms))
            if chunk.vector is not None and self._dimensions:
                self._vectors += chunk.vector.tobytes()
        self.documents += 1
        self._size += document.size

    def finish(self) -> Arrays:
        """The segment; the builder must not be used afterwards."""
        matrix = np.frombuffer(self._vectors, np.float32).reshape(-1, max(1, self._dimensions))
        matrix = matrix if self._dimensions else np.empty((0, 0), np.float32)
        ids = self._packs["ids"].packed("ids")
        arrays: dict[str, Array] = {
            "stamps": np.frombuffer(self._stamps, np.int64),
            "sizes": np.frombuffer(self._sizes, np.int64),
            **{name: np.frombuffer(column, np.int32) for name, column in self._columns.items()},
            **_id_order(Blob(ids["ids"], ids["ids.offsets"])),
            **ids,
        }
        for name in ("names", "heads", "extras", "texts"):
            arrays |= self._packs[name].packed(name)
        arrays |= self._postings.finish()
        names, field_arrays = self._fields.finish()
        arrays |= field_arrays
        arrays["vectors"] = matrix
        meta = {
            "format": FORMAT,
            "rows": self.rows,
            "documents": self.documents,
            "fields": names,
            "norm": float(np.sqrt(np.einsum("ij,ij->i", matrix, matrix).max(initial=0.0))),
        }
        return Arrays(meta, arrays)


def _raw_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def id_number(chunk_id: str) -> int:
    """64-bit number under which a chunk id is looked up."""
    return int.from_bytes(blake2b(_raw_bytes(chunk_id), digest_size=8).digest(), "little")


def _id_order(packed: Blob) -> dict[str, Array]:
    """The ids' numbers in ascending order with their rows."""
    ids = packed.texts(np.arange(len(packed)))
    numbers = np.fromiter(map(id_number, ids), np.uint64, len(ids))
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    return {"numbers": numbers[order], "numbers.rows": order}


def _head_json(document: StoredDocument) -> bytes:
    """The parts of a document that hits show, as JSON."""
    metadata = show_metadata(document)
    return json.dumps([document.id, document.source, document.title, metadata]).encode()


class Segment:
    """An open segment; every array is read-only."""

    def __init__(self, arrays: Arrays, name: str = "") -> None:
        self.name = name
        self.arrays = arrays
        self.rows: int = arrays.meta["rows"]
        self.norm: float = arrays.meta["norm"]
        self.stamps: NDArray[np.int64] = arrays["stamps"]
        self.sizes: NDArray[np.int64] = arrays["sizes"]
        self.postings = Postings.open(arrays)
        self.vectors: NDArray[np.float32] = arrays["vectors"]
        self._ids = unpack(arrays, "ids")
        self.names = unpack(arrays, "names")
        self._heads = unpack(arrays, "heads")
        self._extras = unpack(arrays, "extras")
        self._texts = unpack(arrays, "texts")

    @cached_property
    def fields(self) -> Mapping[str, FieldIndex]:
        """Position lists, by field."""
        return open_fields(self.arrays)

    def id_of(self, row: int) -> str:
        """Chunk id of a row."""
        return self._ids[row].decode("utf-8", "surrogatepass")

    def ids_of(self, rows: NDArray[Any]) -> list[str]:
        """Chunk ids of rows, in their order."""
        return self._ids.texts(rows)

    def beside(self, row: int, reach: int) -> range:
        """Rows of the same document from ``reach`` before a row to ``reach`` after it."""
        owner = self.arrays["document"]
        first, end = np.searchsorted(owner, [owner[row], owner[row] + 1]).tolist()
        return range(max(first, row - reach), min(end, row + reach + 1))

    def row_of(self, chunk_id: str, number: int) -> int | None:
        """Row of a chunk id (``number`` is its :func:`id_number`), None if it is absent."""
        numbers = self.arrays["numbers"]
        at = int(np.searchsorted(numbers, np.uint64(number)))
        while at < len(numbers) and numbers[at] == number:
            row = int(self.arrays["numbers.rows"][at])
            if self.id_of(row) == chunk_id:
                return row
            at += 1
        return None

    def rows_of(self, documents: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask of the rows of some documents."""
        return np.repeat(documents, self.sizes)

    def hit(self, row: int) -> Hit:
        """The chunk of a row, with rank and score 0."""
        number = int(self.arrays["document"][row])
        document_id, source, title, metadata = json.loads(self._heads[number])
        extra = self._extras[row]
        headings, own_metadata, pages, *head = json.loads(extra) if extra else ((), {}, ())
        if own_metadata:
            metadata |= own_metadata
        return Hit(
            rank=0,
            score=0.0,
            document_id=document_id,
            chunk_id=self.id_of(row),
            source=source,
            title=title,
            page=int(self.arrays["page"][row]) or None,
            start=int(self.arrays["start"][row]),
            end=int(self.arrays["end"][row]),
            text=self._texts[row].decode("utf-8", "surrogatepass"),
            headings=tuple(headings),
            metadata=read_metadata(metadata),
            pages=tuple((position, number) for position, number in pages),
            head=Head.unpacked(head[0]) if head else None,
        )
