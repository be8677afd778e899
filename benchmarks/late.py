"""Late interaction over an index of many chunks: its time beside keyword and dense search.

    OMP_NUM_THREADS=1 python -m benchmarks.late --rows 100000 --folder DIR [--publish]

The corpus is that of ``benchmarks.lance_scale``: chunks of words of real abstracts with synthetic
vectors of 384 dimensions. Vectors of tokens are synthetic too, 128 dimensions each, 32 for a query:
encoding 100,000 chunks would take hours here, and no search is faster or slower for it. Queries are
asked in turns with and without late interaction, through a runner, from the text to hits with their
text; models are replaced by a look-up, as their time is the same on both sides or none of the
index's.
"""

from __future__ import annotations

import argparse
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
from ragwright.models import TokenVectors, passage_form, query_form
from ragwright.retrieve import EncodedSearch, RetrieveOptions, Target, retrieve

WIDTH, ASKED, BLOCK, CANDIDATES, SHOWN = 128, 32, 1_000, 200, 10
ENCODER = "synthetic"
CHANNELS = ("keyword", "dense", "late")


def token_vectors(count: int, seed: int) -> TokenVectors:
    """Random vectors of length 1."""
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows, np.zeros((count, 2), np.int32))


class Known(BatchHandler[Any, Any]):
    """Vectors of queries by their text: no model runs."""

    def __init__(self, vectors: dict[str, Any]) -> None:
        self._vectors = vectors

    def durable(self, request: Any) -> bool:
        """Nothing is stored."""
        return False

    def carry(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Known replies."""
        return [
            EncodeReply(
                tuple(
                    query_form(token_vectors(ASKED, abs(hash(text)) % 2**32))
                    for text in request.texts
                )
            )
            if isinstance(request, Encode)
            else EmbedReply(np.stack([self._vectors[text] for text in request.texts]))
            for request in requests
        ]


def opened(rows: int, tokens: int, folder: Path) -> tuple[SqliteStore, dict[str, float]]:
    """The store, filled if it is empty, and what that took."""
    folder.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(folder / "store.sqlite", views=folder / "views")
    if not store.holds(PAIR):
        for batch in blocks(rows, folder):
            store.upsert(PAIR, batch)
    store.view(PAIR).close()
    before = megabytes(folder)
    missing = store.stamps_without(PAIR, ENCODER)
    start = time.perf_counter()
    for at in range(0, len(missing), BLOCK):
        stamps = missing[at : at + BLOCK]
        store.put_encodings(
            ENCODER,
            {stamp: (passage_form(token_vectors(tokens, int(stamp))),) for stamp in stamps},
        )
    return store, {"s to write": time.perf_counter() - start, "MB before": before}


def megabytes(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def timed(runner: Runner, query: str, target: Target, options: RetrieveOptions) -> float:
    """Milliseconds of one query."""
    start = time.perf_counter()
    found = runner.run(retrieve(query, target, options))
    assert found.hits
    return (time.perf_counter() - start) * 1e3


def row(name: str, times: Sequence[float], beside: Sequence[float]) -> dict[str, Any]:
    """A line of the table: median and 95th percentile."""
    return {
        "search": name,
        "p50 ms": round(statistics.median(times), 1),
        "p95 ms": round(float(np.percentile(times, 95)), 1),
        "p50 x keyword + dense": round(statistics.median(times) / statistics.median(beside), 2),
    }


def measured(rows: int, tokens: int, folder: Path) -> tuple[Table, list[str]]:
    """The table of times, and notes on size."""
    store, took = opened(rows, tokens, folder)
    views = Views(store)
    analyzer = default_analyzer(PAIR.analyzer)
    asked = questions(folder)
    handler = Known(dict(asked))
    routes: dict[type[Any], Any] = {
        Search: SearchHandler(views),
        Lookup: LookupHandler(views),
        Embed: handler,
        Encode: handler,
    }

    def target(candidates: int) -> Target:
        coded = EncodedSearch("late", "bench:late", ENCODER, candidates=candidates)
        return Target(
            store.snapshot(PAIR),
            "bench:dense",
            PAIR.dimensions,
            analyzer=analyzer,
            encoded=(coded,),
        )

    plain = RetrieveOptions(pool=CANDIDATES, top_k=SHOWN, channels=CHANNELS[:2])
    late = RetrieveOptions(pool=CANDIDATES, top_k=SHOWN, channels=CHANNELS)
    times: dict[str, list[float]] = {"plain": [], "late": [], "all": []}
    with Runner(routes) as runner:
        start = time.perf_counter()
        timed(runner, asked[0][0], target(CANDIDATES), late)
        took["s to open"] = time.perf_counter() - start
        for text, _ in asked[1:10]:  # to warm up
            timed(runner, text, target(CANDIDATES), late)
        for number, (text, _) in enumerate(asked[10:]):
            for name in ("plain", "late") if number % 2 else ("late", "plain"):
                with Runner(routes) as fresh:  # searches are remembered within a runner
                    options = plain if name == "plain" else late
                    times[name].append(timed(fresh, text, target(CANDIDATES), options))
        for text, _ in asked[:5]:
            with Runner(routes) as fresh:
                times["all"].append(timed(fresh, text, target(0), late))
    size = store.encoding_size(PAIR, ENCODER)
    lines = [
        row("keyword + dense", times["plain"], times["plain"]),
        row(f"keyword + dense + late over {CANDIDATES} candidates", times["late"], times["plain"]),
        row("keyword + dense + late over every chunk (5 queries)", times["all"], times["plain"]),
    ]
    notes = [
        f"{tokens} vectors a chunk: {size.bytes / size.chunks:,.0f} bytes a chunk in the store, and "
        f"the same again in the saved view ({took['MB before']:,.0f} MB without late interaction, "
        f"{megabytes(folder):,.0f} MB with it).",
        f"The first search packs the view: {took['s to open']:.0f} s.",
    ]
    store.close()
    return Table(lines, f"{rows:,} chunks of {tokens} vectors, {len(asked) - 10} queries"), notes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 400])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    tables, notes = [], []
    for tokens in chosen.tokens:
        table, more = measured(chosen.rows, tokens, chosen.folder / str(tokens))
        tables.append(table)
        notes += more
    notes.append(
        "Vectors of words are random. A model adds its time for the question on both sides, and "
        "late interaction that of a second model."
    )
    words = " ".join(map(str, chosen.tokens))
    command = f"python -m benchmarks.late --rows {chosen.rows} --tokens {words} --folder DIR"
    section = Section(
        f"Late interaction over {chosen.rows:,} chunks", tables, notes, f"{command} --publish",
        "channels", 2,
    )
    if chosen.publish:
        print(publish(f"late-{chosen.rows}", section))
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
