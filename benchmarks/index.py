"""The store and its read view beside a bare numpy + bm25s + RRF loop, in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.index [--rows 100000] [--skip-scifact]

Both sides get the same tokens (ours, already cut for documents; queries are cut by each side
within the time that is taken) and the same random normalised vectors, so that times are those
of searching alone. Times are medians over queries, each asked once on each side, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import scifact_beir
from ragwright.core import Chunk, Document, Span
from ragwright.flow import (
    BatchHandler,
    Embed,
    EmbedReply,
    Lookup,
    Route,
    Runner,
    Search,
    search_dense,
)
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LookupHandler,
    SearchHandler,
    SqliteStore,
    View,
    Views,
)
from ragwright.models import Analyzer
from ragwright.retrieve import RetrieveOptions, Target, retrieve, rrf

Matrix = NDArray[np.float32]
DIMENSIONS = 384
DEPTH = 100
SHOWN = 10


@dataclass(frozen=True)
class Corpus:
    """Documents, each one chunk, with a vector each, and queries with theirs."""

    documents: Sequence[Document]
    vectors: Matrix
    queries: Sequence[str]
    query_vectors: Matrix


def random_vectors(count: int, seed: int) -> Matrix:
    """Normalised vectors around fifty centres, as embeddings of a corpus lie."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((50, DIMENSIONS), np.float32)
    matrix = centres[rng.integers(0, 50, count)] + rng.standard_normal(
        (count, DIMENSIONS), np.float32
    )
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


def synthetic(rows: int) -> Corpus:
    """Texts of 37 words on average over a vocabulary with Zipf's frequencies."""
    rng = np.random.default_rng(3)
    words = np.array([f"w{n:05d}"[::-1] for n in range(60_000)])
    share = 1.0 / np.arange(1, len(words) + 1)
    lengths = rng.integers(15, 60, rows)
    picked = words[rng.choice(len(words), int(lengths.sum()), p=share / share.sum())]
    ends = np.cumsum(lengths).tolist()
    texts = [" ".join(picked[s:e]) for s, e in zip([0, *ends[:-1]], ends, strict=True)]
    documents = [Document(f"d{n:06d}", f"mem:{n}", text) for n, text in enumerate(texts)]
    queries = [" ".join(words[rng.integers(20, 3000, 6)]) for _ in range(200)]
    return Corpus(documents, random_vectors(rows, 1), queries, random_vectors(200, 2))


def scifact(folder: Path) -> Corpus:
    """SciFact's abstracts and its test claims."""
    beir = scifact_beir(folder)
    documents = []
    for line in (beir / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        documents.append(Document(row["_id"], row["_id"], row["text"], row["title"]))
    queries = [
        json.loads(line)["text"] for line in (beir / "queries.jsonl").read_text().splitlines()
    ][:300]
    return Corpus(
        documents, random_vectors(len(documents), 1), queries, random_vectors(len(queries), 2)
    )


class Bare:
    """What the work costs without any framework."""

    def __init__(self, corpus: Corpus, analyzer: Analyzer) -> None:
        import bm25s

        self.ids = [f"{d.id}:0-{len(d.text)}" for d in corpus.documents]
        self.matrix = corpus.vectors
        self.analyzer = analyzer
        tokens = [analyzer.tokens(d.text) + analyzer.tokens(d.title) for d in corpus.documents]
        self.words = sum(map(len, tokens))
        start = time.perf_counter()
        self.bm25 = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        self.bm25.index(tokens, show_progress=False)
        self.build = time.perf_counter() - start

    def keyword(self, text: str) -> list[str]:
        """Ids by BM25."""
        scores = self.bm25.get_scores(self.analyzer.query_tokens(text))
        return self._best(scores)

    def dense(self, vector: Matrix) -> list[str]:
        """Ids by similarity."""
        return self._best(self.matrix @ vector)

    def _best(self, scores: NDArray[Any]) -> list[str]:
        top = np.argpartition(scores, -DEPTH)[-DEPTH:]
        top = top[np.argsort(-scores[top], kind="stable")]
        return [self.ids[i] for i in top.tolist()]


def fuse(lists: Sequence[Sequence[str]]) -> list[str]:
    """Reciprocal rank fusion in eight lines."""
    totals: dict[str, float] = {}
    for ids in lists:
        for rank, key in enumerate(ids, 1):
            totals[key] = totals.get(key, 0.0) + 1 / (60 + rank)
    return sorted(totals, key=lambda key: -totals[key])[:SHOWN]


def timed(times: list[float], call: Callable[[], Any]) -> Any:
    """What a call returns; its milliseconds are added to ``times``."""
    start = time.perf_counter()
    result = call()
    times.append((time.perf_counter() - start) * 1e3)
    return result


def compare(view: View, bare: Bare, corpus: Corpus) -> None:
    """Print the medians of both sides."""
    times: dict[tuple[str, str], list[float]] = {}

    def take(side: str, what: str, call: Callable[[], Any]) -> Any:
        return timed(times.setdefault((side, what), []), call)

    def ours(text: str, vector: Matrix) -> Any:
        keyword = take("ours", "keyword", lambda: view.keyword(text, DEPTH))
        dense = take("ours", "dense", lambda: view.dense(vector[None, :], DEPTH)[0])
        lists = [[key for key, _ in keyword], [key for key, _ in dense]]
        return take("ours", "fusion", lambda: rrf(lists, limit=SHOWN))

    def plain(text: str, vector: Matrix) -> Any:
        keyword = take("bare", "keyword", lambda: bare.keyword(text))
        dense = take("bare", "dense", lambda: bare.dense(vector))
        return take("bare", "fusion", lambda: fuse([keyword, dense]))

    for _ in range(2):
        for text, vector in zip(corpus.queries, corpus.query_vectors, strict=True):
            take("ours", "hybrid", lambda t=text, v=vector: ours(t, v))  # type: ignore[misc]
            take("bare", "hybrid", lambda t=text, v=vector: plain(t, v))  # type: ignore[misc]
    print(f"  {'p50 ms':10} {'ours':>8} {'bare':>8} {'ratio':>6}")
    for what in ("keyword", "dense", "fusion", "hybrid"):
        a, b = (statistics.median(times[side, what]) for side in ("ours", "bare"))
        print(f"  {what:10} {a:8.3f} {b:8.3f} {a / b:6.2f}")
    some = [key for key, _ in view.keyword(corpus.queries[0], SHOWN)]
    lookups: list[float] = []
    for _ in range(200):
        timed(lookups, lambda: view.lookup(some))
    print(f"  lookup     {statistics.median(lookups) * 1e3 / len(some):8.1f} µs a hit")
    start = time.perf_counter()
    view.dense(corpus.query_vectors, SHOWN)
    took = time.perf_counter() - start
    print(f"  batch      {took * 1e3 / len(corpus.query_vectors):8.3f} ms a query in one product")


class Given(BatchHandler[Embed, EmbedReply]):
    """Vectors that are there already: what embedding costs is another benchmark's question."""

    def __init__(self, corpus: Corpus) -> None:
        self._known = dict(zip(corpus.queries, corpus.query_vectors, strict=True))

    def durable(self, request: Embed) -> bool:
        """Nothing is stored."""
        return False

    def quick(self, requests: Sequence[Embed]) -> bool:
        """Always: it is a look-up."""
        return True

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """The vector of each text."""
        return [EmbedReply(np.stack([self._known[t] for t in r.texts])) for r in requests]


def through_the_runner(store: SqliteStore, pair: IndexSpec, bare: Bare, corpus: Corpus) -> None:
    """Print what whole hybrid queries cost, hits with their texts included; and 64 at once."""
    views = Views(store)
    target = Target(views.snapshot(pair), "given", DIMENSIONS, analyzer=bare.analyzer)
    routes: dict[type[Any], Route] = {
        Search: SearchHandler(views),
        Lookup: LookupHandler(views),
        Embed: Given(corpus),
    }
    times: dict[str, list[float]] = {"ours": [], "bare": []}

    def plain(text: str, vector: Matrix) -> list[str]:
        return fuse([bare.keyword(text), bare.dense(vector)])

    options = RetrieveOptions(top_k=SHOWN, pool=DEPTH, search="hybrid")
    pairs = list(zip(corpus.queries, corpus.query_vectors, strict=True))
    # A runner remembers searches: each round has its own, and asks each query once.
    for _ in range(2):
        with Runner(routes) as runner:
            for text, vector in pairs:
                timed(
                    times["ours"],
                    lambda t=text, r=runner: r.run(retrieve(t, target, options)),  # type: ignore[misc]
                )
                timed(times["bare"], lambda t=text, v=vector: plain(t, v))  # type: ignore[misc]
    ours, alone = (statistics.median(times[side]) for side in ("ours", "bare"))
    print(
        f"  runner     {ours:8.3f} {alone:8.3f} {ours / alone:6.2f}  (ms: retrieve(), with texts)"
    )
    with Runner(routes) as runner:
        start = time.perf_counter()
        list(runner.map((retrieve(text, target, options) for text, _ in pairs), limit=64))
        rate = len(pairs) / (time.perf_counter() - start)
    print(f"  64 flows   {rate:8.0f} hybrid queries a second")
    many = random_vectors(500, 9)
    with Runner(routes) as runner:
        start = time.perf_counter()
        list(runner.map((search_dense(target.snapshot, v, SHOWN) for v in many), limit=64))
        took = time.perf_counter() - start
    start = time.perf_counter()
    scores = many @ corpus.vectors.T
    np.argpartition(scores, -SHOWN, axis=1)
    floor = time.perf_counter() - start
    print(
        f"  500 dense  {took:8.3f} s in 64 flows, {floor:.3f} s in one numpy product with "
        f"selection ({took / floor:.2f})"
    )


def store_of(corpus: Corpus, folder: Path, analyzer: Analyzer) -> tuple[SqliteStore, IndexSpec]:
    """A store of the corpus; prints what ingesting and building cost."""
    store = SqliteStore(folder / "store.sqlite", analyzers=lambda spec: analyzer)
    pair = IndexSpec("whole", analyzer.spec, "bench", DIMENSIONS)
    items = []
    for number, document in enumerate(corpus.documents):
        chunk = Chunk(
            f"{document.id}:0-{len(document.text)}",
            document.id,
            0,
            Span(0, len(document.text)),
            document.text,
        )
        vectors = corpus.vectors[number : number + 1]
        items.append(IndexedDocument(document, (chunk,), vectors))
    start = time.perf_counter()
    for at in range(0, len(items), 64):
        store.upsert(pair, items[at : at + 64])
    took = time.perf_counter() - start
    print(f"  ingest     {took * 1e3 / len(items):8.3f} ms a chunk, tokens and commits included")
    start = time.perf_counter()
    for at in range(0, len(items), 64):
        store.upsert(pair, items[at : at + 64])
    print(f"  unchanged  {(time.perf_counter() - start) * 1e3 / len(items):8.3f} ms a document")
    return store, pair


def run(name: str, corpus: Corpus) -> None:
    """Measure one corpus and print."""
    analyzer = Analyzer()
    words = sum(len(d.text.split()) for d in corpus.documents)
    print(f"{name}: {len(corpus.documents):,} chunks, {words / 1e6:.2f} million words")
    with tempfile.TemporaryDirectory() as folder:
        store, pair = store_of(corpus, Path(folder), analyzer)
        times: list[float] = []
        view = timed(times, lambda: store.view(pair))
        print(f"  build      {times[0]:8.1f} ms")
        view.close()
        del view
        store.close()
        store = SqliteStore(Path(folder) / "store.sqlite", analyzers=lambda spec: analyzer)
        view = timed(times, lambda: store.view(pair))
        print(f"  open saved {times[1]:8.2f} ms")
        first = timed(times, lambda: view.keyword(corpus.queries[0], 10))
        print(f"  1st query  {times[2]:8.2f} ms ({len(first)} hits)")
        mapped = view.statistics().bytes
        vectors = corpus.vectors.nbytes
        print(
            f"  mapped     {mapped / 2**20:8.1f} MiB; without vectors "
            f"{(mapped - vectors) / 2**20 / (words / 1e6):.1f} MiB a million words"
        )
        extra = corpus.documents[0]
        changed = Document(extra.id, extra.source, extra.text + " more")
        span = Span(0, len(changed.text))
        chunk = Chunk(f"{extra.id}:0-{span.end}", extra.id, 0, span, changed.text)
        store.upsert(pair, [IndexedDocument(changed, (chunk,), corpus.vectors[:1])])
        timed(times, lambda: store.view(pair))
        print(f"  one change {times[3]:8.1f} ms to the next view")
        bare = Bare(corpus, analyzer)
        print(f"  bm25s      {bare.build * 1e3:8.1f} ms to build")
        compare(view, bare, corpus)
        through_the_runner(store, pair, bare, corpus)
        store.close()


def tiny() -> None:
    """Print the cold open of a store of one document."""
    with tempfile.TemporaryDirectory() as folder:
        times: list[float] = []

        def work() -> None:
            store = SqliteStore(Path(folder) / "store.sqlite")
            pair = IndexSpec("whole", Analyzer().spec)
            document = Document("a", "a", "one two three")
            chunk = Chunk("a:0-13", "a", 0, Span(0, 13), document.text)
            store.upsert(pair, [IndexedDocument(document, (chunk,))])
            store.view(pair).keyword("two", 3)
            store.close()

        timed(times, work)
        timed(times, work)
        print(f"tiny store: {times[0]:.1f} ms made and asked, {times[1]:.1f} ms opened and asked")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--skip-scifact", action="store_true")
    chosen = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"OMP_NUM_THREADS {threads}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    tiny()
    if not chosen.skip_scifact:
        with tempfile.TemporaryDirectory() as folder:
            run("SciFact", scifact(Path(folder)))
    if chosen.rows:
        run("synthetic", synthetic(chosen.rows))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak RSS {peak:.0f} MB, the corpus and both sides' indexes included")


if __name__ == "__main__":
    main()
