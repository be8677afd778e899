"""Documents and chunks as a store gives them back, and what each amounts to.

Whatever answers is made of these: segments, and the scan that needs no segment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Hit, Metadata, MetaValue
from ..models import TokenSource

Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as a store gives it back: its terms packed, its vector where there is one."""

    id: str
    start: int
    end: int
    page: int | None
    pages: tuple[tuple[int, int], ...]
    headings: tuple[str, ...]
    metadata: Metadata
    terms: bytes
    vector: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as a store gives it back, with its chunks under one pair."""

    stamp: int
    id: str
    source: str
    title: str
    language: str
    created: str
    modified: str
    metadata: Metadata
    text: str
    chunks: Sequence[StoredChunk] = field(default_factory=tuple)

    @property
    def size(self) -> int:
        """About how many bytes a segment needs for it."""
        vectors = sum(0 if c.vector is None else c.vector.nbytes for c in self.chunks)
        return len(self.text) + vectors + sum(len(c.terms) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state of a pair, to be gone through document by document as often as is needed.

    Attributes:
        snapshot: Name of the state.
        documents: The documents with their chunks, a few in memory at a time; each call begins
            anew, on the same state.
        analyzer: Cuts queries as the chunks were cut.
        k1: As of BM25.
        b: As of BM25.
        dimensions: Length of a vector, 0 without vectors.
    """

    snapshot: str
    documents: Callable[[], Iterator[StoredDocument]]
    analyzer: TokenSource
    k1: float
    b: float
    dimensions: int


def shown_metadata(document: StoredDocument) -> dict[str, MetaValue]:
    """Metadata that a hit shows of its document."""
    metadata = dict(document.metadata)
    for name in ("language", "created", "modified"):
        value = getattr(document, name)
        if value:
            metadata.setdefault(name, value)
    return metadata


def hit_of(document: StoredDocument, chunk: StoredChunk) -> Hit:
    """The chunk as a hit, with rank and score 0."""
    return Hit(
        rank=0,
        score=0.0,
        document_id=document.id,
        chunk_id=chunk.id,
        source=document.source,
        title=document.title,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
        text=document.text[chunk.start : chunk.end],
        headings=tuple(chunk.headings),
        metadata={**shown_metadata(document), **chunk.metadata},
        pages=chunk.pages,
    )


def fields_of(document: StoredDocument, chunk: StoredChunk) -> dict[str, tuple[Scalar, ...]]:
    """Fields by which the chunk is filtered, each with the values it holds.

    A chunk's own value takes the place of its document's; what the document's record says
    (source, title, …) wins over both. Its first page stands beside a value named ``page``; its
    headings are its ``section`` where neither it nor its document has a field of that name.
    """
    names = ("source", "title", "language", "created", "modified")
    own: dict[str, MetaValue] = {name: getattr(document, name) for name in names}
    own["document_id"] = document.id
    merged = {
        **document.metadata,
        **chunk.metadata,
        **{name: value for name, value in own.items() if value != ""},
    }
    found: dict[str, tuple[Scalar, ...]] = {}
    for name, value in merged.items():
        values: tuple[Scalar, ...] = value if isinstance(value, tuple) else (value,)
        if value is not None and value != "" and values:
            found[name] = values
    if chunk.headings and not {"section"} & {*document.metadata, *chunk.metadata}:
        found["section"] = chunk.headings
    if chunk.page is not None:
        found["page"] = (*found.get("page", ()), chunk.page)
    return found


def pages_from(stored: str) -> tuple[tuple[int, int], ...]:
    """Pages of a chunk from JSON."""
    if stored == "[]":
        return ()
    return tuple((position, number) for position, number in json.loads(stored))


def as_metadata(loaded: Mapping[str, Any]) -> dict[str, MetaValue]:
    """Metadata from JSON, its lists as tuples again."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in loaded.items()}
