"""Learned sparse search over an index of many chunks: its time beside keyword and dense search.

    OMP_NUM_THREADS=1 python -m benchmarks.channels --rows 100000 --folder DIR [--publish]

The corpus is that of ``benchmarks.lance_scale``: chunks of words of real abstracts with synthetic
vectors of 384 dimensions. Sparse vectors are synthetic too: 200 terms a chunk of a vocabulary of
30,522, drawn by Zipf's law; a query has 10 terms, as an inference-free model gives it, or 40, as
SPLADE expands it, drawn by the same law, so that frequent terms, whose postings are long, are asked
for most. Questions are asked in turns with and without the channel, through a runner, from the text
to hits with their text. Models are replaced by a look-up.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lance_scale import PAIR, blocks, questions
from benchmarks.publish import Section, Table, publish, section_lines
from ragwright.flow import (
    BatchHandler,
    Embed,
    EmbedReply,
    Encode,
    EncodeReply,
    Lookup,
    Runner,
    Search,
)
from ragwright.index import LookupHandler, SearchHandler, SqliteStore, Views, default_analyzer
from ragwright.retrieve import EncodedSearch, RetrieveOptions, Target, retrieve

VOCABULARY, TERMS, BLOCK, SHOWN = 30_522, 200, 1_000, 10
QUERY_TERMS = (10, 40)
ENCODER = "synthetic"
Times = tuple[float, float]
SHARES = 1.0 / (np.arange(VOCABULARY) + 2.7)
SHARES /= SHARES.sum()


def sparse_vector(terms: int, seed: int) -> bytes:
    """A random sparse vector of about so many terms, in the form of the channel."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.choice(VOCABULARY, terms, p=SHARES))
    weights = rng.gamma(2.0, 0.4, len(drawn)).astype(np.float32)
    return drawn.astype(np.uint32).tobytes() + weights.tobytes()


class Known(BatchHandler[Any, Any]):
    """Vectors of questions by their text: no model runs."""

    def __init__(self, vectors: dict[str, Any], terms: int) -> None:
        self._vectors = vectors
        numbers = {text: at for at, text in enumerate(vectors)}
        self._sparse = {text: sparse_vector(terms, 10**9 + at) for text, at in numbers.items()}

    def durable(self, request: Any) -> bool:
        """Nothing is stored."""
        return False

    def carry(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Known replies."""
        return [
            EncodeReply(tuple(self._sparse[text] for text in request.texts))
            if isinstance(request, Encode)
            else EmbedReply(np.stack([self._vectors[text] for text in request.texts]))
            for request in requests
        ]


def opened(rows: int, folder: Path) -> SqliteStore:
    """The store, filled if it is empty, with a view that holds no sparse data yet."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "views", ignore_errors=True)
    store = SqliteStore(folder / "store.sqlite", views=folder / "views")
    if not store.holds(PAIR):
        for batch in blocks(rows, folder):
            store.upsert(PAIR, batch)
    missing = store.stamps_without(PAIR, ENCODER)
    for at in range(0, len(missing), BLOCK):
        stamps = missing[at : at + BLOCK]
        store.put_encodings(ENCODER, {each: (sparse_vector(TERMS, each),) for each in stamps})
    store.view(PAIR).close()
    return store


def megabytes(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def timed(routes: dict[type[Any], Any], query: str, target: Target, sparse: bool) -> Times:
    """Milliseconds of one question, and those of the processor in all threads.

    A runner of its own, as one remembers its searches.
    """
    channels = ("keyword", "dense", "sparse") if sparse else ("keyword", "dense")
    options = RetrieveOptions(top_k=SHOWN, channels=channels)
    with Runner(routes) as runner:
        start, used = time.perf_counter(), time.process_time()
        assert runner.run(retrieve(query, target, options)).hits
        return (time.perf_counter() - start) * 1e3, (time.process_time() - used) * 1e3


def measured(rows: int, folder: Path) -> tuple[Table, list[str]]:
    """The table of times, and notes on size."""
    store = opened(rows, folder)
    before = megabytes(folder / "views")
    views = Views(store)
    asked = questions(folder)
    coded = EncodedSearch("sparse", "bench:sparse", ENCODER)
    target = Target(
        store.snapshot(PAIR),
        "bench:dense",
        PAIR.dimensions,
        analyzer=default_analyzer(PAIR.analyzer),
        encoded=(coded,),
    )
    lines: list[dict[str, Any]] = []
    packing = 0.0
    for terms in QUERY_TERMS:
        handler = Known(dict(asked), terms)
        routes: dict[type[Any], Any] = {
            Search: SearchHandler(views),
            Lookup: LookupHandler(views),
            Embed: handler,
            Encode: handler,
        }
        first = timed(routes, asked[0][0], target, sparse=True)
        packing = packing or first[0] / 1e3
        for text, _ in asked[1:10]:  # to warm up
            timed(routes, text, target, sparse=True)
        times: dict[bool, list[Times]] = {False: [], True: []}
        for number, (text, _) in enumerate(asked[10:]):
            for sparse in (False, True) if number % 2 else (True, False):
                times[sparse].append(timed(routes, text, target, sparse))
        base, base_used = map(statistics.median, zip(*times[False], strict=True))
        for sparse, name in ((False, "keyword + dense"), (True, "keyword + dense + sparse")):
            wall, used = map(statistics.median, zip(*times[sparse], strict=True))
            lines.append(
                {
                    "terms of a query": str(terms),
                    "search": name,
                    "p50 ms": round(wall, 1),
                    "x keyword + dense": round(wall / base, 2),
                    "processor p50 ms": round(used, 1),
                    "processor x keyword + dense": round(used / base_used, 2),
                }
            )
    size = store.encoding_size(PAIR, ENCODER)
    notes = [
        f"{size.bytes / size.chunks:,.0f} bytes a chunk in the store; the saved view grows from "
        f"{before:,.0f} to {megabytes(folder / 'views'):,.0f} MB. The first search after an ingest "
        f"packs it: {packing:.1f} s.",
        "Sparse vectors are random: about 160 of the terms are in more than an eighth of the "
        "chunks, and queries ask for these most. Models trained to avoid such terms are faster. "
        "Models are not part of the times: an embedding model adds the same to every line, a "
        "SPLADE model the encoding of the question to those with sparse; an inference-free model "
        "looks it up.",
    ]
    store.close()
    return Table(lines, f"{rows:,} chunks of {TERMS} terms, {len(asked) - 10} questions"), notes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    table, notes = measured(chosen.rows, chosen.folder)
    command = f"OMP_NUM_THREADS=1 python -m benchmarks.channels --rows {chosen.rows} --folder DIR"
    section = Section(
        f"Learned sparse search over {chosen.rows:,} chunks",
        [table],
        notes,
        f"{command} --publish",
        "channels",
        1,
    )
    if chosen.publish:
        print(publish(f"sparse-{chosen.rows}", section))
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
