"""Questions that need several passages: single-shot against iterative search, without a model.

    OMP_NUM_THREADS=1 python -m benchmarks.multihop [hotpotqa musique 2wiki] [--keyword]

Measured is the share of questions with *all* gold passages in the top 8. Single shot is keyword,
or hybrid, search as it comes; iterative follows names in the passages found
(``retrieve.iterate.method: entities``), two and three rounds. Both sides get the same passages,
vectors and settings; the difference carries a paired bootstrap interval.

Methods and constants of the iteration were chosen on the first 50 questions of HotpotQA and of
MuSiQue alone; those are printed apart. Nothing was chosen on the others, nor on 2Wiki.

The data of 2Wiki holds the top-8 titles of four published runs (vdb, lightrag, nano, graph). They
searched only the passages of their own questions (about 800 chunks), we search all 6,119, so their
figures are not directly comparable.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.data_sets import DATA
from benchmarks.paired import paired
from benchmarks.publish import Section, Table, publish
from benchmarks.vectors import CACHE, Matrix, _model, vectors
from ragwright.core import Chunk, Document, Span, text_hash
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
from ragwright.models import AnalyzerOptions, make_analyzer
from ragwright.retrieve import IterateOptions, Retrieved, RetrieveOptions, Target, iterate, retrieve

NAMES = ("hotpotqa", "musique", "2wiki")
DEVELOPMENT = 50
TOP = 8
MODEL = "bench:minilm"
SYSTEMS = ("vdb", "lightrag", "nano", "graph")
"""Published runs on 2Wiki."""

WAYS: Mapping[str, IterateOptions] = {
    "two rounds": IterateOptions("entities"),
    "three rounds": IterateOptions("entities", rounds=3),
}

Mode = Literal["keyword", "hybrid"]


@dataclass(frozen=True)
class Question:
    """A question and the ids of all passages that it needs."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Passage:
    """One passage of the corpus."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Collection:
    """Passages and questions; the first ``development`` questions may be looked at."""

    name: str
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]
    development: int


def load(name: str, folder: Path = DATA / "multihop") -> Collection:
    """One of the three collections.

    Raises:
        FileNotFoundError: The data sets do not lie beside the checkout.
    """
    if name == "hotpotqa":
        corpus = _json(folder / "hotpotqa_train_corpus.json")
        passages = [Passage(title, title, "".join(text)) for title, text in corpus.items()]
        asked = [
            Question(row["question"], frozenset(title for title, _ in row["supporting_facts"]))
            for row in _json(folder / "hotpotqa_train.json")
        ]
    elif name == "musique":
        corpus = _json(folder / "musique_train_corpus.json")
        passages = [Passage(str(n), row["title"], row["text"]) for n, row in enumerate(corpus)]
        ids = {(p.title, p.text): p.id for p in passages}  # titles occur several times
        asked = [
            Question(
                row["question"],
                frozenset(
                    ids[part["title"], part["paragraph_text"]]
                    for part in row["paragraphs"]
                    if part["is_supporting"]
                ),
            )
            for row in _json(folder / "musique_train.json")
        ]
    else:
        corpus = _json(folder / "2wikimultihopqa_corpus.json")
        passages = [Passage(row["title"], row["title"], row["text"]) for row in corpus]
        rows = {row["question"]: row for size in (51, 101) for row in _run("vdb", size, folder)}
        asked = [Question(text, frozenset(row["ground_truth"])) for text, row in rows.items()]
    seen = 0 if name == "2wiki" else DEVELOPMENT
    return Collection(name, tuple(passages), tuple(asked), seen)


def _run(system: str, size: int, folder: Path = DATA / "multihop") -> list[dict[str, Any]]:
    """A published run: questions, gold titles and the titles a system returned."""
    rows: list[dict[str, Any]] = _json(folder / f"{system}_2wikimultihopqa_{size}.json")
    return rows


def _json(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"the data set multihop is not there: no {path}")
    return json.loads(path.read_text("utf-8"))


class MiniLm(BatchHandler[Embed, EmbedReply]):
    """Embeds queries with MiniLM, and remembers them in the cache folder across runs."""

    def __init__(self, path: Path = CACHE / "multihop_queries.npz") -> None:
        self._path = path
        self._known: dict[str, Matrix] = {}
        self._model: Any = None
        if path.is_file():
            with np.load(path) as stored:
                keys, rows = stored["keys"].tolist(), stored["vectors"]
            self._known = dict(zip(keys, rows, strict=True))

    def durable(self, request: Embed) -> bool:
        """Nothing to keep beyond the cache."""
        return False

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """The vectors of the texts."""
        texts = list(dict.fromkeys(text for r in requests for text in r.texts))
        missing = [text for text in texts if text_hash(text) not in self._known]
        if missing:
            self._model = self._model or _model()
            encoded = self._model.encode(
                missing, normalize_embeddings=True, show_progress_bar=False
            )
            rows = np.asarray(encoded, dtype=np.float32)
            self._known.update(zip(map(text_hash, missing), rows, strict=True))
        return [
            EmbedReply(np.stack([self._known[text_hash(t)] for t in r.texts])) for r in requests
        ]

    def save(self) -> None:
        """Write what is remembered."""
        if self._known:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_suffix(".part.npz")
            np.savez(
                part, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values()))
            )
            part.replace(self._path)


@contextmanager
def opened(
    collection: Collection, embedder: MiniLm | None, folder: Path
) -> Iterator[tuple[Target, Mapping[type[Any], Any]]]:
    """The collection as an index: a target, and the handlers that answer for it."""
    analyzer = make_analyzer(AnalyzerOptions())
    documents = []
    for passage in collection.passages:
        key, text = passage.id, passage.text
        chunk = Chunk(f"{key}:0-{len(text)}", key, 0, Span(0, len(text)), text)
        document = Document(key, key, text, title=passage.title)
        documents.append(IndexedDocument(document, (chunk,)))
    pair = IndexSpec("whole passages", analyzer.spec)
    if embedder is not None:
        texts = [embedded_text(d.chunks[0], d.document.title) for d in documents]
        rows = vectors(collection.name, texts)
        pair = IndexSpec(pair.chunker, pair.analyzer, MODEL, rows.shape[1])
        documents = [
            IndexedDocument(d.document, d.chunks, row[None])
            for d, row in zip(documents, rows, strict=True)
        ]
    store = open_store(StoreOptions(), folder)
    views = Views(store)
    try:
        store.upsert(pair, documents)
        target = Target(
            store.snapshot(pair),
            MODEL if embedder is not None else "",
            pair.dimensions,
            analyzer=analyzer,
        )
        routes: dict[type[Any], Any] = {
            Search: SearchHandler(views),
            Lookup: LookupHandler(views),
        }
        if embedder is not None:
            routes[Embed] = embedder
        yield target, routes
    finally:
        views.close()
        store.close()


def complete(
    collection: Collection,
    runner: Runner,
    ask: Callable[[str], Flow[Retrieved]],
) -> tuple[list[float], float]:
    """Per question 1 where all its gold passages were found; and milliseconds a question."""
    begin = time.perf_counter()
    results = [runner.run(ask(question.text)) for question in collection.questions]
    spent = (time.perf_counter() - begin) * 1e3 / len(results)
    return [
        float(question.gold <= set(result.document_ids))
        for question, result in zip(collection.questions, results, strict=True)
    ], spent


def compare(name: str, modes: Sequence[Mode], embedder: MiniLm | None) -> list[dict[str, Any]]:
    """Print one collection's table, and give its rows."""
    rows: list[dict[str, Any]] = []
    collection = load(name)
    count = len(collection.passages)
    print(f"\n{name}: {count} passages, {len(collection.questions)} questions, top {TOP}")
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(collection, embedder, Path(folder)) as (target, routes),
        Runner(routes) as runner,
    ):
        for mode in modes:
            options = RetrieveOptions(top_k=TOP, search=mode)

            def once(query: str, options: RetrieveOptions = options) -> Flow[Retrieved]:
                return retrieve(query, target, options)

            single, spent = complete(collection, runner, once)
            for way, chosen in WAYS.items():

                def ask(
                    query: str,
                    once: Callable[[str], Flow[Retrieved]] = once,
                    chosen: IterateOptions = chosen,
                ) -> Flow[Retrieved]:
                    return iterate(query, target, chosen, once)

                again, longer = complete(collection, runner, ask)
                print(f"  {mode}, {way}: {spent:.1f} -> {longer:.1f} ms a question")
                for part, at in _parts(collection).items():
                    print(f"    {part:24} {_figures(single[at], again[at])}")
                    rows.append(_row((name, part, mode, way), single[at], again[at]))
    if name == "2wiki":
        _published()
    return rows


def _parts(collection: Collection) -> dict[str, slice]:
    if not collection.development:
        return {"all": slice(None)}
    return {
        "held out": slice(collection.development, None),
        "(development)": slice(0, collection.development),
    }


def _figures(single: Sequence[float], again: Sequence[float]) -> str:
    gain = paired(again, single)
    return (
        f"single {np.mean(single):.3f}  iterative {np.mean(again):.3f}  difference "
        f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]  n={len(single)}"
    )


def _row(
    place: tuple[str, str, str, str], single: Sequence[float], again: Sequence[float]
) -> dict[str, Any]:
    name, part, mode, way = place
    gain = paired(again, single)
    return {
        "collection": f"{name}, {part}",
        "search": mode,
        "iterated": way,
        "questions": len(single),
        "single shot": float(np.mean(single)),
        "iterative": float(np.mean(again)),
        "difference": gain.mean,
        "from": gain.low,
        "to": gain.high,
    }


def section(rows: Sequence[dict[str, Any]]) -> Section:
    """What the page of results says."""
    return Section(
        title="Questions whose answer needs several passages",
        tables=[Table(rows, f"Share of questions with all gold passages in the top {TOP}")],
        notes=[
            "Offline: names in the passages are followed, no model reads them. The constants were "
            "chosen on the rows marked development; the others were held out.",
            "On questions with one gold passage iterating loses a little, so it is off by default.",
        ],
        command="python -m benchmarks.multihop --publish",
        order=70,
    )


def _published() -> None:
    print("  published runs over about 800 chunks (the passages of their own questions alone):")
    for size in (51, 101):
        shares = []
        for system in SYSTEMS:
            rows = _run(system, size)
            hits = [set(row["ground_truth"]) <= set(row["evidence"][:TOP]) for row in rows]
            shares.append(f"{system} {np.mean(hits):.3f}")
        print(f"    {size:3} questions: {', '.join(shares)}")


def main() -> None:
    """Run the collections named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--keyword", action="store_true", help="no vectors")
    parser.add_argument("--publish", action="store_true", help="keep the figures in docs/results")
    given = parser.parse_args()
    embedder = None if given.keyword else MiniLm()
    modes: tuple[Mode, ...] = ("keyword",) if given.keyword else ("keyword", "hybrid")
    rows: list[dict[str, Any]] = []
    for name in given.names:
        if name not in NAMES:
            parser.error(f"unknown collection {name}: one of {', '.join(NAMES)}")
        rows += compare(name, modes, embedder)
        if embedder is not None:
            embedder.save()
    if given.publish:
        publish("multihop", section(rows))


if __name__ == "__main__":
    main()
