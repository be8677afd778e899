"""Retrieval beside a bare loop: equal quality, and what the framework costs in time.

    OMP_NUM_THREADS=1 python -m benchmarks.retrieval [scifact cranfield …] [--keyword]

Bare is what the work costs without any framework: numpy, bm25s (Lucene's BM25, k1 1.2, b 0.75,
English stemmer and stop words) and eight lines of reciprocal rank fusion, lists 100 deep. Both
sides get the same texts and the same MiniLM vectors (:mod:`benchmarks.vectors`); a query is
embedded by a look-up, so that times are those of search and framework alone.

Quality: all judged queries of the split ``test``. Nothing is chosen or tuned here. Time:
median over queries, each asked once on each side, in turns; ours through a runner, from
the text of the query to hits with text and address. Processor time is printed too: on a busy
machine the wall clock mostly measures how long the runner's thread waits to be woken.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.data_sets import scifact_beir
from benchmarks.documents import no_network
from benchmarks.peers.bare import Find, bare_loop
from benchmarks.smart_format import smart_beir
from benchmarks.vectors import Matrix, model_tokenizer, vectors
from ragwright.core import Chunk, Document, Score, Span
from ragwright.experiment import evaluate_retrieval, ranking_search
from ragwright.flow import BatchHandler, Embed, EmbedReply, Lookup, Runner, Search
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LookupHandler,
    SearchHandler,
    StoreOptions,
    Views,
    embedded_text,
    open_store,
)
from ragwright.ingest import BeirReader
from ragwright.measure import Measure, aggregate, parse_measures, retrieval_scores
from ragwright.models import AnalyzerOptions, make_analyzer
from ragwright.retrieve import RetrieveOptions, Target, retrieve
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

    def quick(self, requests: Sequence[Embed]) -> bool:
        """A look-up never takes long."""
        return True

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
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
    embedded = vectors(cache, [embedded_text(d.chunks[0], d.document.title) for d in indexed])
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


def bare(corpus: Corpus) -> dict[str, Find]:
    """The loop without a framework."""
    ids = [d.document.id for d in corpus.documents]
    return bare_loop(ids, corpus.given, corpus.given_vectors, corpus.queries.__getitem__)


def measured(testset: Testset, find: Find) -> list[float]:
    """Mean of each measure for a search that is a plain function."""
    rankings = [find(row.user_input, DEPTH) for row in testset.rows]

    def scores(measure: Measure) -> list[Score]:
        return [
            retrieval_scores(measure, ranking, row.reference_ids)
            for row, ranking in zip(testset.rows, rankings, strict=True)
        ]

    return [aggregate(scores(measure)).mean or 0.0 for measure in MEASURES]


@contextmanager
def opened(
    corpus: Corpus, folder: Path, analysis: AnalyzerOptions | None = None
) -> Iterator[tuple[Routes, Target]]:
    """Handlers and target of a corpus, stored in a project of its own in ``folder``."""
    analyzer = make_analyzer(analysis)
    pair = IndexSpec("whole documents", analyzer.spec)
    if corpus.queries:
        pair = IndexSpec(
            pair.chunker, pair.analyzer, MODEL, next(iter(corpus.queries.values())).size
        )
    store = open_store(StoreOptions(), folder / "project")
    try:
        store.upsert(pair, corpus.documents)
        views = Views(store)
        routes: dict[type[Any], Any] = {
            Search: SearchHandler(views),
            Lookup: LookupHandler(views),
            Embed: KnownVectors(corpus.queries),
        }
        yield (
            routes,
            Target(
                store.snapshot(pair),
                MODEL if corpus.queries else "",
                pair.dimensions,
                analyzer=analyzer,
                tokenizer=model_tokenizer() if corpus.queries else None,
            ),
        )
    finally:
        store.close()


def compare(name: str, folder: Path, with_vectors: bool, queries: int) -> None:
    """Print one collection's tables."""
    corpus = load(name, folder / "beir", with_vectors)
    with opened(corpus, folder) as (routes, target):
        loops = bare(corpus)
        print(f"\n{name}: {len(corpus.documents)} documents, {len(corpus.testset.rows)} queries")
        for note in corpus.testset.notes:
            print(f"  note: {note}")
        _quality(corpus, loops, routes, target)
        _time(corpus, loops, routes, target, queries)


def _quality(corpus: Corpus, loops: Mapping[str, Find], routes: Routes, target: Target) -> None:
    print(f"  {'':8}  {' / '.join(map(str, MEASURES))}: bare | ours [95 % interval of nDCG@10]")
    with Runner(routes) as runner:
        for channel in corpus.channels:
            theirs = measured(corpus.testset, loops[channel])
            options = RetrieveOptions(search=channel, pool=DEPTH)
            search = ranking_search(target, options, MEASURES)
            summaries = runner.run(evaluate_retrieval(corpus.testset, search, MEASURES))
            ours = [summaries[str(measure)] for measure in MEASURES]
            print(
                f"  {channel:8}  {' / '.join(f'{v:.4f}' for v in theirs)} | "
                f"{' / '.join(f'{s.mean:.4f}' for s in ours)} "
                f"[{ours[0].low:.3f}, {ours[0].high:.3f}], coverage {ours[0].coverage:.2f}"
            )


def _time(
    corpus: Corpus,
    loops: Mapping[str, Find],
    routes: Routes,
    target: Target,
    queries: int,
) -> None:
    asked = [row.user_input for row in corpus.testset.rows][: queries + 10]
    print(
        f"  {'':8}  ms a query, top {SHOWN}, p50 / p95 / CPU p50: bare | ours | ratio of p50, CPU"
    )
    for channel in corpus.channels:
        options = RetrieveOptions(search=channel, pool=DEPTH, top_k=SHOWN)
        theirs, ours = [], []
        with Runner(routes) as runner:  # a fresh one: searches are remembered within a runner
            for query in asked:
                theirs.append(_clocked(partial(loops[channel], query, SHOWN)))
                ours.append(_clocked(partial(runner.run, retrieve(query, target, options))))
        b, o = _figures(theirs[10:]), _figures(ours[10:])  # ten to warm up
        print(
            f"  {channel:8}  {' / '.join(f'{v:.3f}' for v in b)} | "
            f"{' / '.join(f'{v:.3f}' for v in o)} | {o[0] / b[0]:.2f}, {o[2] / b[2]:.2f}"
        )
    with Runner(routes) as runner:
        start = time.perf_counter()
        options = RetrieveOptions(pool=DEPTH, top_k=SHOWN)
        done = sum(1 for _ in runner.map(retrieve(query, target, options) for query in asked))
        print(f"  mapped    {done / (time.perf_counter() - start):,.0f} queries/s in one runner")


def _clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds by the wall, and of processor time in all threads of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def _figures(times: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    walls = [wall for wall, _ in times]
    cpu = statistics.median(cpu for _, cpu in times)
    return statistics.median(walls), statistics.quantiles(walls, n=20)[-1], cpu


def main() -> None:
    """Run the collections named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["cranfield", "scifact"])
    parser.add_argument("--keyword", action="store_true", help="no vectors")
    parser.add_argument("--queries", type=int, default=150, help="queries to time")
    given = parser.parse_args()
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, Path(folder), not given.keyword, given.queries)


if __name__ == "__main__":
    main()
