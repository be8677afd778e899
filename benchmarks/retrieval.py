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
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.data_sets import scifact_beir
from benchmarks.smart_format import smart_beir
from benchmarks.vectors import Matrix, vectors
from ragwright.core import Chunk, Document, Score, Span
from ragwright.experiment import Testset, evaluate_retrieval, load_testset, ranking_search
from ragwright.flow import BatchHandler, Embed, EmbedReply, Lookup, Runner, Search
from ragwright.index import (
    IndexedDocument,
    LookupHandler,
    Pair,
    SearchHandler,
    StoreOptions,
    Views,
    embedded_text,
    open_store,
)
from ragwright.measure import Measure, aggregate, parse_measures, retrieval_scores
from ragwright.models import AnalyzerOptions, make_analyzer
from ragwright.retrieve import RetrieveOptions, Target, retrieve

MEASURES = parse_measures("nDCG@10, Recall@100, MRR@10")
DEPTH = 100
SHOWN = 10
MODEL = "bench:minilm"

Channel = Literal["keyword", "dense", "hybrid"]
Find = Callable[[str, int], list[str]]
Queries = Mapping[str, Matrix]


@dataclass(frozen=True)
class Corpus:
    """A collection ready to index: one chunk a document, with its vector where wanted."""

    testset: Testset
    documents: tuple[IndexedDocument, ...]
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
    """A collection through the BEIR layout."""
    beir = scifact_beir(folder) if name == "scifact" else smart_beir(name, folder)
    testset = load_testset(f"beir:{beir}/test")
    found = []
    with (beir / "corpus.jsonl").open(encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            title, text = entry["title"].strip(), entry["text"].strip()
            whole = f"{title}\n{text}".strip()
            document = Document(entry["_id"], f"beir:{beir}", whole, title=title)
            span = Span(0, len(whole))
            chunk = Chunk(f"{document.id}:0-{len(whole)}", document.id, 0, span, whole)
            found.append(IndexedDocument(document, (chunk,) if whole else ()))
    if not with_vectors:
        return Corpus(testset, tuple(found), {})
    full = [d for d in found if d.chunks]
    texts = [embedded_text(d.chunks[0], d.document.title) for d in full]
    made = vectors(name, texts)
    asked = [row.user_input for row in testset.rows]
    documents = [
        IndexedDocument(d.document, d.chunks, v[None]) for d, v in zip(full, made, strict=True)
    ]
    return Corpus(testset, tuple(documents), dict(zip(asked, vectors(name, asked), strict=True)))


def bare(corpus: Corpus) -> dict[str, Find]:
    """The loop without a framework."""
    import bm25s
    import Stemmer

    full = [d for d in corpus.documents if d.chunks]
    ids = [d.document.id for d in full]
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(tokens([d.chunks[0].text for d in full]), show_progress=False)

    def keyword(query: str, k: int) -> list[str]:
        rows, scores = index.retrieve(tokens([query]), k=k, show_progress=False)
        return [ids[i] for i, score in zip(rows[0], scores[0], strict=True) if score > 0]

    if not corpus.queries:
        return {"keyword": keyword}
    matrix = np.concatenate([d.vectors for d in full if d.vectors is not None])

    def dense(query: str, k: int) -> list[str]:
        scores = matrix @ corpus.queries[query]
        top = np.argpartition(-scores, k)[:k]
        return [ids[i] for i in top[np.argsort(-scores[top], kind="stable")]]

    def hybrid(query: str, k: int) -> list[str]:
        fused: dict[str, float] = {}
        for found in (keyword(query, DEPTH), dense(query, DEPTH)):
            for rank, key in enumerate(found, 1):
                fused[key] = fused.get(key, 0.0) + 1 / (60 + rank)
        return sorted(fused, key=lambda key: -fused[key])[:k]

    return {"keyword": keyword, "dense": dense, "hybrid": hybrid}


def measured(testset: Testset, find: Find) -> list[float]:
    """Mean of each measure for a search that is a plain function."""
    rankings = [find(row.user_input, DEPTH) for row in testset.rows]

    def scores(measure: Measure) -> list[Score]:
        return [
            retrieval_scores(measure, ranking, row.reference_ids)
            for row, ranking in zip(testset.rows, rankings, strict=True)
        ]

    return [aggregate(scores(measure)).mean or 0.0 for measure in MEASURES]


def compare(name: str, folder: Path, with_vectors: bool, queries: int) -> None:
    """Print one collection's tables."""
    corpus = load(name, folder / "beir", with_vectors)
    pair = Pair("whole documents", make_analyzer(AnalyzerOptions()).spec)
    if corpus.queries:
        pair = Pair(pair.chunker, pair.analyzer, MODEL, next(iter(corpus.queries.values())).size)
    store = open_store(StoreOptions(), folder / "project")
    try:
        store.upsert(pair, corpus.documents)
        views = Views(store)
        target = Target(store.snapshot(pair), MODEL if corpus.queries else "", pair.dimensions)
        routes: dict[type[Any], Any] = {
            Search: SearchHandler(views),
            Lookup: LookupHandler(views),
            Embed: KnownVectors(corpus.queries),
        }
        loops = bare(corpus)
        print(f"\n{name}: {len(corpus.documents)} documents, {len(corpus.testset.rows)} queries")
        for note in corpus.testset.notes:
            print(f"  note: {note}")
        _quality(corpus, loops, routes, target)
        _time(corpus, loops, routes, target, queries)
    finally:
        store.close()


def _quality(
    corpus: Corpus, loops: Mapping[str, Find], routes: Mapping[type[Any], Any], target: Target
) -> None:
    print(f"  {'':8}  {' / '.join(map(str, MEASURES))}: bare | ours [95 % interval of nDCG@10]")
    with Runner(routes) as runner:
        for channel in corpus.channels:
            theirs = measured(corpus.testset, loops[channel])
            options = RetrieveOptions(search=channel, pool=DEPTH)
            search = ranking_search(target, options, MEASURES)
            found = runner.run(evaluate_retrieval(corpus.testset, search, MEASURES))
            ours = [found[str(measure)] for measure in MEASURES]
            print(
                f"  {channel:8}  {' / '.join(f'{v:.4f}' for v in theirs)} | "
                f"{' / '.join(f'{s.mean:.4f}' for s in ours)} "
                f"[{ours[0].low:.3f}, {ours[0].high:.3f}], coverage {ours[0].coverage:.2f}"
            )


def _time(
    corpus: Corpus,
    loops: Mapping[str, Find],
    routes: Mapping[type[Any], Any],
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
