"""Collections of the benchmarks of retrieval, each stored in a project of its own.

Both sides of a comparison get the same texts and the same MiniLM vectors
(:mod:`benchmarks.vectors`); a query is embedded by a look-up, so that times are those of search
and framework alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.data_sets import scifact_beir
from benchmarks.documents import no_network
from benchmarks.smart_format import smart_beir
from benchmarks.vectors import Matrix, model_tokenizer, vectors
from ragwright.core import Chunk, Document, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, Lookup, Search
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    StoreOptions,
    ViewHandler,
    Views,
    open_store,
    write_embedded_text,
)
from ragwright.ingest import BeirReader
from ragwright.measure import parse_measures
from ragwright.models import AnalyzerOptions, make_analyzer
from ragwright.retrieve import Target
from ragwright.testsets import Testset, load_testset

MEASURES = parse_measures("nDCG@10, Recall@100, MRR@10")
DEPTH = 100
SHOWN = 10
MODEL = "bench:minilm"

Channel = Literal["keyword", "dense", "hybrid"]
Queries = Mapping[str, Matrix]
Routes = Mapping[type[Any], Any]


@dataclass(frozen=True)
class Corpus:
    """A collection ready to index: one chunk a document, with its vector where wanted.

    ``given`` holds what others get of each document: title and text, all the words that we
    index, as users of BEIR put them together; ``given_vectors`` are the vectors of those.
    """

    testset: Testset
    documents: tuple[IndexedDocument, ...]
    given: tuple[str, ...]
    given_vectors: Matrix | None
    queries: Queries

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What can be searched."""
        return ("keyword", "dense", "hybrid") if self.queries else ("keyword",)


class KnownVectors(BatchHandler[Embed, EmbedReply]):
    """Embeds queries by looking them up."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def durable(self, request: Embed) -> bool:
        """Nothing to keep."""
        return False

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """The vectors of the texts."""
        return [EmbedReply(np.stack([self._queries[t] for t in r.texts])) for r in requests]


def load(name: str, folder: Path, with_vectors: bool) -> Corpus:
    """A collection by its name; its BEIR folder is written to ``folder``."""
    beir = scifact_beir(folder) if name == "scifact" else smart_beir(name, folder)
    return read_beir(f"{beir}/test", name if with_vectors else "")


def read_beir(address: str, cache: str = "") -> Corpus:
    """A split of any BEIR folder, read as ``ragwright ingest`` reads it, one chunk a document.

    Args:
        address: ``DIR/SPLIT``.
        cache: Name of the file of cached vectors (:mod:`benchmarks.vectors`); "" for none.
    """
    testset = load_testset(f"beir:{address}")
    indexed = []
    for document in BeirReader().read(f"beir:{address.rpartition('/')[0]}", no_network):
        if isinstance(document, Document):
            size = len(document.text)
            span = Span(0, size)
            chunk = Chunk(f"{document.id}:0-{size}", document.id, 0, span, document.text)
            indexed.append(IndexedDocument(document, (chunk,)))
    given = tuple(_given(d.document) for d in indexed)
    if not cache:
        return Corpus(testset, tuple(indexed), given, None, {})
    embedded = vectors(cache, [write_embedded_text(d.chunks[0], d.document.title) for d in indexed])
    asked = [row.user_input for row in testset.rows]
    documents = [
        IndexedDocument(d.document, d.chunks, v[None])
        for d, v in zip(indexed, embedded, strict=True)
    ]
    queries = dict(zip(asked, vectors(cache, asked), strict=True))
    return Corpus(testset, tuple(documents), given, vectors(cache, given), queries)


def _given(document: Document) -> str:
    title, text = document.title, document.text
    return f"{title}\n{text}" if title and title != text else text


@contextmanager
def opened(
    corpus: Corpus, folder: Path, analysis: AnalyzerOptions | None = None
) -> Iterator[tuple[Routes, Target]]:
    """Handlers and target of a corpus, stored in a project of its own in ``folder``."""
    analyzer = make_analyzer(analysis)
    spec = IndexSpec("whole documents", analyzer.spec)
    if corpus.queries:
        spec = IndexSpec(
            spec.chunker, spec.analyzer, MODEL, next(iter(corpus.queries.values())).size
        )
    store = open_store(StoreOptions(), folder / "project")
    try:
        store.upsert(spec, corpus.documents)
        views = Views(store)
        routes: dict[type[Any], Any] = {
            Search: ViewHandler(views),
            Lookup: ViewHandler(views),
            Embed: KnownVectors(corpus.queries),
        }
        yield (
            routes,
            Target(
                store.snapshot(spec),
                MODEL if corpus.queries else "",
                spec.dimensions,
                analyzer=analyzer,
                tokenizer=model_tokenizer() if corpus.queries else None,
            ),
        )
    finally:
        store.close()
