"""The store and its settings: documents, chunks and vectors as every engine keeps them; views."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Chunk,
    ConfigError,
    Document,
    Filter,
    Head,
    Hit,
    Metadata,
    MetaValue,
    Relaxation,
    SnapshotGoneError,
    StoreError,
    holds_secret,
    option,
    value_hash,
)
from ..flow import SearchReply
from ..models import Analyzer


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
    head: Head | None = None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as read from a store, with its chunks under one index spec."""

    stamp: int
    document: Document
    chunks: Sequence[StoredChunk] = field(default_factory=tuple)

    @property
    def size(self) -> int:
        """Approximate number of bytes a segment needs for it."""
        vectors = sum(0 if c.vector is None else c.vector.nbytes for c in self.chunks)
        return len(self.document.text) + vectors + sum(len(c.terms) for c in self.chunks)


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state of an index spec, to be read document by document, any number of times.

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
    analyzer: Analyzer
    k1: float
    b: float
    dimensions: int
    fits: bool = True


def show_metadata(document: Document) -> dict[str, MetaValue]:
    """Metadata of the document that a hit shows."""
    names = ("language", "created", "modified")
    own = {name: value for name in names if (value := getattr(document, name))}
    return {**document.metadata, **own, **document.metadata}


def pages_from(stored: str) -> tuple[tuple[int, int], ...]:
    """Pages of a chunk from JSON."""
    if stored == "[]":
        return ()
    return tuple((position, number) for position, number in json.loads(stored))


def read_metadata(loaded: Mapping[str, Any]) -> dict[str, MetaValue]:
    """Metadata from JSON, its lists as tuples again."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in loaded.items()}


Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One way to index a corpus: its chunker, analyzer and embedding model.

    Several index specs can be in one store; each is complete in itself.

    Attributes:
        chunker: Canonical text of the chunker's settings.
        analyzer: Canonical text of the keyword analyzer's settings.
        embedder: Identity of the embedding model with its prefixes and pooling; empty where
            the index spec has no vectors.
        dimensions: Length of a vector, 0 without vectors.
        similarity: ``cosine`` (vectors arrive normalised) or ``dot``.
    """

    chunker: str
    analyzer: str
    embedder: str = ""
    dimensions: int = 0
    similarity: str = "cosine"

    @property
    def key(self) -> str:
        """Short name of the index spec, the same on every machine: 12 hexadecimal digits."""
        return value_hash([self.chunker, self.analyzer, self.embedder])[:12]


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document ready to be stored under one index spec.

    ``vectors`` has shape (chunks, dimensions), or is None for a spec without vectors; ``hash`` is
    the document's content hash if known; it is computed if empty. ``terms`` are the packed terms of
    each chunk, made with the spec's analyzer (:func:`pack_chunk_terms`), if another process did.
    """

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Matrix | None = None
    hash: str = ""
    terms: tuple[bytes, ...] | None = None

    def content_hash(self) -> str:
        """Content hash of the document."""
        return self.hash or self.document.content_hash()


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """Counts of a write: documents and chunks added, changed, unchanged, removed."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks_added: int = 0
    chunks_removed: int = 0

    def __add__(self, other: WriteCounts) -> WriteCounts:
        """Sum, field by field."""
        return WriteCounts(
            self.added + other.added,
            self.changed + other.changed,
            self.unchanged + other.unchanged,
            self.removed + other.removed,
            self.chunks_added + other.chunks_added,
            self.chunks_removed + other.chunks_removed,
        )


@dataclass(frozen=True, slots=True)
class ViewStatistics:
    """Size of a view, for ``doctor``: rows, documents, tokens, resident bytes.

    ``approximate`` is the note on a dense search for 100 candidates, empty if it is exact.
    """

    chunks: int
    documents: int
    tokens: int
    bytes: int
    approximate: str = ""


class View(ABC):
    """Answers from one consistent snapshot; never changes while a writer works."""

    snapshot: str
    index_spec: IndexSpec

    def keyword(
        self, text: str, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[str, float], ...]:
        """Up to k (chunk id, BM25 score), score above 0, best first, ties by id.

        Raises:
            FilterError: A filter names a field that no chunk has, or values that no chunk under the
                filters before it has (the nearest are named). An excluding filter may name any
                values.
        """
        return self.keyword_reply(text, k, filters).candidates

    @abstractmethod
    def keyword_reply(self, text: str, k: int, filters: Sequence[Filter] = ()) -> SearchReply:
        """The result of :meth:`keyword`, and the tokens looked for, if the view knows them.

        Each token comes with the number of chunks that hold it and meet the filters; a token in
        none of these is reported like an unknown one. Scores are those of the whole corpus.
        """

    @abstractmethod
    def dense(
        self, vectors: Matrix, k: int, filters: Sequence[Filter] = ()
    ) -> tuple[tuple[tuple[str, float], ...], ...]:
        """For each query vector up to k (chunk id, similarity), best first, ties by id.

        Raises:
            RetrieveError: The index spec has no vectors, the dimension differs, or a value is NaN.
        """

    def range_notes(self, filters: Sequence[Filter]) -> tuple[str, ...]:
        """Notes on documents that a range leaves out because their values cannot be compared."""
        return ()

    def approximation(self, k: int, filters: Sequence[Filter] = ()) -> str:
        """The note on :meth:`dense` with these arguments; empty if it is exact."""
        return ""

    @abstractmethod
    def relaxed(
        self, query: str | Matrix, k: int, relax: Relaxation, filters: Sequence[Filter] = ()
    ) -> SearchReply:
        """Up to k chunks by weight of the soft filters they meet, then score, then id.

        Candidates are those of :meth:`keyword` (a text: score above 0) or of :meth:`dense` (a
        vector: all chunks) whose score, rounded to 6 digits, reaches the threshold. All meet the
        hard filters. Weights are added as decimals, without rounding (0.1 + 0.2 is 0.3), and
        combinations of equal weight are one; a filter of weight 0 changes no order, but is part of
        the level. Of filters with equal field and values the heaviest counts; a field with several
        strings meets a filter when it holds at least one of its values, so topics that should count
        separately need separate filters. Without ``unfiltered``, chunks that meet none of the soft
        filters are left out (without soft filters, none can be missed).

        Args:
            query: Query text, or one query vector of shape (dimensions,).
            k: Most candidates; 0 returns only the ladder, with all levels.
            relax: Soft filters, threshold, whether the unfiltered level counts.
            filters: Hard filters.

        Returns:
            ``candidates``, their levels ``rungs``, and the ``ladder``: the levels down to the
            weight of the last candidate, or all if fewer than k were found (of equal weight: first
            the level with more filters, then the one with earlier filters).

        Raises:
            FilterError: More than 62 soft filters; a threshold that is NaN; weights whose sum
                is infinite; a hard or soft filter on a field that no chunk has, or on values that
                no chunk under the hard filters before it has (the nearest are named).
            RetrieveError: As for :meth:`dense`.
        """

    @abstractmethod
    def every(self, k: int, filters: Sequence[Filter] = (), after: str = "") -> tuple[str, ...]:
        """Up to k chunk ids: documents by id, the chunks of each in text order.

        Args:
            k: Most to return.
            filters: Hard filters.
            after: Continue after this chunk, which need not meet the filters.

        Raises:
            FilterError: As for :meth:`keyword`.
            RetrieveError: ``after`` is not in the snapshot.
        """

    @abstractmethod
    def count(self, filters: Sequence[Filter] = ()) -> int:
        """Number of chunks that meet hard filters; FilterError as for :meth:`keyword`."""

    @abstractmethod
    def vectors(self, chunk_ids: Sequence[str]) -> Matrix | None:
        """Vectors of these chunks, shape (chunks, dimensions); None for an index spec without.

        Raises:
            RetrieveError: An id is not in the snapshot.
        """

    @abstractmethod
    def lookup(self, chunk_ids: Sequence[str]) -> tuple[Hit, ...]:
        """The chunks with these ids as hits (rank and score 0), in this order.

        Raises:
            RetrieveError: An id is not in the snapshot.
        """

    @abstractmethod
    def fields(self) -> Mapping[str, int]:
        """The metadata fields of the chunks, with the number of chunks that have each.

        Always included if known: ``document_id, source, title, language, page`` and
        ``section`` (the headings above a chunk, outermost first; a field of that name in the
        metadata of the document or the chunk replaces them).
        """

    @abstractmethod
    def statistics(self) -> ViewStatistics:
        """Size of the view."""

    def close(self) -> None:
        """Release files and memory; the view must not be used afterwards."""


class Store(ABC):
    """The stored documents, chunks, vectors and metadata of one project.

    Every write is one transaction: all of it is there after a crash, or none of it. Bad
    input never loses what is already stored.
    """

    @abstractmethod
    def content_hashes(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Map each document id under the index spec to its stored content hash."""

    def holds(self, index_spec: IndexSpec) -> bool:
        """True where the index spec holds at least one document; cheap at any size."""
        return any(stored.key == index_spec.key for stored in self.index_specs())

    @abstractmethod
    def sources(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Document id -> root it was ingested from (see :meth:`upsert`), for pruning."""

    @abstractmethod
    def stored_vectors(self, embedder: str, hashes: Sequence[str]) -> Mapping[str, Matrix]:
        """Vectors already stored under (embedder, :func:`chunk_key`), for those known.

        Vectors are stored once: specs with the same embedder share the vectors of equal texts.
        """

    def replace_vectors(self, index_spec: IndexSpec, vectors: Mapping[str, Matrix]) -> None:
        """Replace stored vectors; documents and texts stay.

        Args:
            index_spec: Its embedder made them; all index specs with it get a new snapshot.
            vectors: By :func:`chunk_key`; a key that is not stored is left out.

        Raises:
            StoreError: This kind of store cannot replace vectors.
        """
        raise StoreError(
            "this kind of store cannot replace vectors",
            hint="delete the store's folder, then run: ragwright ingest",
        )

    @abstractmethod
    def upsert(
        self, index_spec: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        """Add new documents, replace changed ones with all their chunks, skip equal ones.

        Args:
            index_spec: The index spec to write to.
            batch: Documents with their chunks; written in one transaction.
            root: The source they were read from, remembered for pruning.

        Raises:
            DuplicateIdError: Two documents of the batch share an id.
            StoreBusyError: Another process kept the store locked too long.
            StoreFullError: The disk is full; what was committed before is intact.
        """

    @abstractmethod
    def remove(
        self,
        document_ids: Sequence[str],
        index_spec: IndexSpec | None = None,
        *,
        purge: bool = False,
    ) -> WriteCounts:
        """Remove documents with chunks, from one index spec or (None) from all, vectors included.

        Without ``purge`` (documents that vanished from their source) saved views stay, so that a
        run pinned to one can continue. With it (documents to be forgotten) no byte of them, nor of
        any earlier version, stays on disk; open views keep answering. Purging documents that are
        already removed completes a purge that was refused.

        Raises:
            StoreBusyError: With ``purge``: all is removed, but bytes stay on disk while another
                process reads them.
        """

    @abstractmethod
    def snapshot(self, index_spec: IndexSpec) -> str:
        """Name of the index spec's present state; equal names mean equal content."""

    @abstractmethod
    def view(self, index_spec: IndexSpec, snapshot: str | None = None) -> View:
        """A view of the present state, or of the named one.

        Raises:
            SnapshotGoneError: The named state is no longer the stored one.
        """

    def rebuild_view(self, index_spec: IndexSpec, snapshot: str) -> View:
        """The named state's view, rebuilt from the stored rows, not from saved views.

        Called after a view failed. A store without saved views need not override it.

        Raises:
            SnapshotGoneError: The named state is no longer the stored one.
        """
        return self.view(index_spec, snapshot)

    def settle(self, index_spec: IndexSpec) -> None:
        """Maintenance at the end of an ingest: indexes, small files, versions that nothing needs.

        A store that needs none need not override it.
        """

    @abstractmethod
    def reading(self, index_spec: IndexSpec) -> AbstractContextManager[StoredState]:
        """The stored rows of the present state.

        Nothing may be read from views, segments or anything else that was derived from the
        rows: where these fail, a second index is built from what is read here. The iterators
        are to be used within the context only.

        Raises:
            StoreBusyError: From an iterator: writers replaced the rows to be read.
        """

    @abstractmethod
    def documents(self, index_spec: IndexSpec) -> Iterator[Document]:
        """Stored documents by id, one in memory at a time."""

    @abstractmethod
    def document(self, document_id: str) -> Document | None:
        """A stored document; None if there is none."""

    @abstractmethod
    def index_specs(self) -> Sequence[IndexSpec]:
        """Every index spec that holds at least one document."""

    @abstractmethod
    def close(self) -> None:
        """Close files; safe to call twice."""


def snapshot_name(index_spec: IndexSpec, digest: str, options: StoreOptions) -> str:
    """Name of a state: equal content and equal BM25 settings give equal names."""
    parts: list[object] = [digest, options.k1, options.b]
    if options.approximate:
        parts += ["approximate", options.recall, options.approximate_rows]
    return f"{index_spec.key}@{value_hash(parts)[:16]}"


def snapshot_gone(name: str, current: str, where: str) -> SnapshotGoneError:
    """The error for a snapshot that was deleted, with the one to use instead."""
    return SnapshotGoneError(
        f"snapshot {name!r} has been deleted",
        where=where,
        hint=f"the present one is {current!r}: start a new run on it",
    )


@dataclass(frozen=True, slots=True)
class LanceSizes:
    """Numbers of chunks from which a Lance store works differently; the defaults were measured.

    Attributes:
        indexed: Indexes are built from this many on; fewer are read in milliseconds.
        stale: Changes after which indexes are renewed where search is approximate.
        read: A relaxation level up to this size is read whole, about as fast as one search.
        exact: Chunks under hard filters up to which dense search is always exact.
        joined: Writes of a process after which it joins the small files of documents, which every
            write reads.
    """

    indexed: int = 5_000
    stale: int = 1_000
    read: int = 5_000
    exact: int = 20_000
    joined: int = 50


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Location and behaviour of the store."""

    recall: ClassVar[float] = 0.98
    """Recall@100 and @1000 to which the approximate index is tuned; if it cannot reach them, search
    is exact."""

    approximate_rows: ClassVar[int] = 50_000
    """Least number of chunks for which the approximate index is built."""

    busy_seconds: ClassVar[float] = 30.0
    """Seconds to wait for another process's write."""

    kind: Literal["sqlite", "lance"] = option(
        "sqlite", "Store: sqlite (embedded) or lance (scales out).", when="index"
    )
    path: str = option(
        "",
        "File or folder of the store, from the project folder; empty for .ragwright/data. A lance "
        "store may have an address (s3://, gs://, az://), whose credentials come from the "
        "environment.",
        when="index",
    )
    k1: float = option(1.2, "BM25: saturation of repeated words (k1).", ge=0.0)
    b: float = option(0.75, "BM25: how strongly long chunks are penalised (b).", ge=0.0, le=1.0)
    approximate: bool = option(
        False,
        "Answer dense searches of a large lance store from an approximate index; its measured "
        "recall is stated with every answer.",
    )
    max_mb: int = option(0, "Most megabytes the SQLite file may take, 0 for no limit.", ge=0)

    def __post_init__(self) -> None:
        """Refuse keys that the kind does not have, and secrets."""
        if "://" in self.path and self.kind != "lance":
            raise ConfigError("store.path is an address", hint="set store.kind: lance")
        if holds_secret(self.path):
            raise ConfigError(
                "store.path holds a secret",
                hint="leave it out: credentials of an object store come from the environment",
            )
        if self.approximate and self.kind != "lance":
            raise ConfigError(
                "store.approximate needs store.kind lance: the sqlite store searches exactly",
                hint="set store.kind: lance and run ragwright ingest again, or remove "
                "store.approximate",
            )
