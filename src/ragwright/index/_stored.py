"""Documents and chunks as a store returns them; segments are built from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Metadata, MetaValue
from ..models import TokenSource


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as read from a store: with packed terms, and its vector if it has one."""

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
    """A document as read from a store, with its chunks under one pair."""

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
        """Approximate number of bytes a segment needs for it."""
        vectors = sum(0 if c.vector is None else c.vector.nbytes for c in self.chunks)
        return len(self.text) + vectors + sum(len(c.terms) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state of a pair, to be read document by document, any number of times.

    Attributes:
        snapshot: Name of the state.
        documents: The documents with their chunks, a few in memory at a time; each call starts from
            the beginning, on the same state.
        analyzer: Cuts queries as the chunks were cut.
        k1: BM25's k1.
        b: BM25's b.
        dimensions: Length of a vector, 0 without vectors.
        fits: False if the rows may be more than memory holds.
    """

    snapshot: str
    documents: Callable[[], Iterator[StoredDocument]]
    analyzer: TokenSource
    k1: float
    b: float
    dimensions: int
    fits: bool = True


def shown_metadata(document: StoredDocument) -> dict[str, MetaValue]:
    """Metadata of the document that a hit shows."""
    names = ("language", "created", "modified")
    return shown_parts(document.metadata, {name: getattr(document, name) for name in names})


def shown_parts(metadata: Metadata, head: Mapping[str, str]) -> dict[str, MetaValue]:
    """The same, from a document's metadata and its own fields by name."""
    parts = dict(metadata)
    for name in ("language", "created", "modified"):
        if head[name]:
            parts.setdefault(name, head[name])
    return parts


def pages_from(stored: str) -> tuple[tuple[int, int], ...]:
    """Pages of a chunk from JSON."""
    if stored == "[]":
        return ()
    return tuple((position, number) for position, number in json.loads(stored))


def as_metadata(loaded: Mapping[str, Any]) -> dict[str, MetaValue]:
    """Metadata from JSON, its lists as tuples again."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in loaded.items()}
