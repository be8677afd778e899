"""Checks documents and encodes them for the store, before any lock is taken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ..core import (
    Chunk,
    Document,
    DuplicateIdError,
    Head,
    Page,
    Section,
    Span,
    StoreError,
    count_noun,
    text_hash,
)
from ..models import Analyzer
from ._postings import ChunkTokens, pack_terms
from ._store import IndexedDocument, IndexSpec, Matrix, read_metadata

DIGEST_MODULUS = 2**128


@dataclass(frozen=True, slots=True)
class ReadyChunk:
    """A chunk ready to be written: with packed terms, its vector and the key of that."""

    chunk: Chunk
    terms: bytes
    vector_key: bytes | None
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class ReadyDocument:
    """A document ready to be written."""

    document: Document
    hash: str
    chunks: tuple[ReadyChunk, ...]


def chunk_key(chunk: Chunk, title: str = "") -> str:
    """Hash of the text that is embedded for a chunk; the key of its vector."""
    return text_hash(write_embedded_text(chunk, title))


def write_embedded_text(chunk: Chunk, title: str = "") -> str:
    """The text of a chunk that is embedded: its head, then its text.

    A title or heading with which the text begins anyway is left out. Without a head of its own, a
    chunk stands under its document's title.
    """
    above = (chunk.head or Head(title.strip())).above(chunk.text)
    return f"{above}\n{chunk.text}" if above else chunk.text


def pack_standing(chunk: Chunk) -> str:
    """Headings and head of a chunk as JSON, as the column ``headings`` keeps them."""
    if chunk.head is None:
        return json.dumps(chunk.headings) if chunk.headings else "[]"
    return json.dumps([chunk.headings, chunk.head.packed()])


def unpack_standing(stored: str) -> tuple[tuple[str, ...], Head | None]:
    """Headings and head that :func:`pack_standing` wrote."""
    if stored == "[]":
        return (), None
    values = json.loads(stored)
    if values and isinstance(values[0], list):
        headings, head = values
        return tuple(headings), Head.unpacked(head)
    return tuple(values), None


def check_batch(batch: Sequence[IndexedDocument]) -> None:
    """Refuse two documents with one id.

    Raises:
        DuplicateIdError: Two documents of the batch share an id.
    """
    source_of: dict[str, str] = {}
    for item in batch:
        document = item.document
        if document.id in source_of:
            raise DuplicateIdError(
                f"two documents have the id {document.id!r}",
                where=f"{source_of[document.id]} and {document.source}",
                hint="give each source its own id",
            )
        source_of[document.id] = document.source


def prepare_documents(
    index_spec: IndexSpec, items: Sequence[tuple[IndexedDocument, str]], analyzer: Analyzer
) -> list[ReadyDocument]:
    """Documents, each with its content hash, ready to be written.

    Raises:
        DuplicateIdError: Two chunks of a document share an id.
        StoreError: A chunk is not a piece of its document, or the vectors do not fit.
    """
    return [
        _ready_document(
            index_spec,
            item,
            hash_,
            pack_chunk_terms(analyzer, item) if item.terms is None else item.terms,
        )
        for item, hash_ in items
    ]


def pack_chunk_terms(analyzer: Analyzer, item: IndexedDocument) -> tuple[bytes, ...]:
    """Terms of a document's chunks as they are stored: made on a worker, away from the store."""
    tokens = ChunkTokens(analyzer, item.document.title)
    return tuple(pack_terms(tokens.of(chunk)) for chunk in item.chunks)


def _ready_document(
    index_spec: IndexSpec, item: IndexedDocument, hash_: str, terms: Sequence[bytes]
) -> ReadyDocument:
    document = item.document
    rows = _checked_vectors(index_spec, item)
    ids: set[str] = set()
    chunks = []
    for index, (chunk, chunk_terms) in enumerate(zip(item.chunks, terms, strict=True)):
        if chunk.id in ids:
            raise DuplicateIdError(f"two chunks have the id {chunk.id!r}", where=document.source)
        ids.add(chunk.id)
        if document.text[chunk.span.start : chunk.span.end] != chunk.text:
            raise StoreError(
                f"chunk {chunk.id!r} is not the text of its span", where=document.source
            )
        key = bytes.fromhex(chunk_key(chunk, document.title)) if rows is not None else None
        vector = None if rows is None else rows[index].tobytes()
        chunks.append(ReadyChunk(chunk, chunk_terms, key, vector))
    return ReadyDocument(document, hash_, tuple(chunks))


def _checked_vectors(index_spec: IndexSpec, item: IndexedDocument) -> Matrix | None:
    where = item.document.source
    if not index_spec.dimensions or not item.chunks:
        return None
    if item.vectors is None:
        raise StoreError("the chunks have no vectors, but their index spec needs them", where=where)
    vectors = np.ascontiguousarray(item.vectors, dtype=np.float32)
    if vectors.shape != (len(item.chunks), index_spec.dimensions):
        raise StoreError(
            f"vectors of shape {vectors.shape} for {count_noun(len(item.chunks), 'chunk')} "
            f"of {index_spec.dimensions} dimensions",
            where=where,
        )
    if not np.isfinite(vectors).all():
        broken = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise StoreError(
            f"the vector of chunk {item.chunks[broken].id!r} holds NaN or infinity",
            where=where,
            hint="the embedding model failed on this text; nothing of the batch was stored",
        )
    return vectors


def pack_vector(index_spec: IndexSpec, vector: Matrix) -> bytes:
    """A vector as it is stored.

    Raises:
        StoreError: Not of the index spec's length, or not finite.
    """
    row = np.ascontiguousarray(vector, dtype=np.float32)
    if row.shape != (index_spec.dimensions,) or not np.isfinite(row).all():
        raise StoreError(
            f"a vector of shape {row.shape} does not fit {index_spec.dimensions} dimensions"
        )
    return row.tobytes()


def entry_digest(name: str, hash_: str, source: str) -> int:
    """A document's part of its index spec's digest (a sum modulo :data:`DIGEST_MODULUS`)."""
    raw = "\0".join((name, hash_, source)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=16).digest(), "little")


def total_digest(parts: Iterable[int]) -> str:
    """Digest of a set of documents, whatever their order: 32 hexadecimal digits."""
    return f"{sum(parts) % DIGEST_MODULUS:032x}"


def structure_of(document: Document) -> str:
    """Pages and sections as JSON."""
    pages = [[p.number, p.span.start, p.span.end, p.label] for p in document.pages]
    sections = [[s.title, s.level, s.span.start, s.span.end] for s in document.sections]
    return json.dumps([pages, sections]) if pages or sections else ""


def document_from(row: Sequence[Any]) -> Document:
    """A document from its columns, in the order of :data:`COLUMNS`."""
    name, source, title, language, created, modified, media_type, structure, metadata, text = row
    pages, sections = json.loads(structure) if structure else ((), ())
    return Document(
        id=decode_text(name),
        source=decode_text(source),
        text=decode_text(text),
        title=decode_text(title),
        language=language,
        created=created,
        modified=modified,
        media_type=media_type,
        pages=tuple(Page(n, Span(start, end), label) for n, start, end, label in pages),
        sections=tuple(Section(t, level, Span(start, end)) for t, level, start, end in sections),
        metadata=read_metadata(json.loads(metadata)),
    )


COLUMNS = (
    "name",
    "source",
    "title",
    "language",
    "created",
    "modified",
    "media_type",
    "structure",
    "metadata",
    "text",
)
"""Columns of a document, in the order :func:`document_from` reads them."""


def encode_text(text: str) -> str | bytes:
    """A text as stored: bytes if UTF-8 cannot encode it."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(value: str | bytes) -> str:
    """The text that :func:`encode_text` stored."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
