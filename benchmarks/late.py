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
from ragwright.models import TokenVectors, passage_form, query_form
from ragwright.retrieve import EncodedSearch, RetrieveOptions, Target, retrieve

WIDTH, ASKED, BLOCK, CANDIDATES, MANY, SHOWN = 128, 32, 1_000, 200, 600, 10
ENCODER = "synthetic"
CHANNELS = ("keyword", "dense", "late")
Times = tuple[float, float]


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


def opened(rows: int, tokens: int, folder: Path) -> SqliteStore:
    """The store, filled if it is empty, with a view that holds no data of late interaction yet."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "views", ignore_errors=True)
    store = SqliteStore(folder / "store.sqlite", views=folder / "views")
    if not store.holds(PAIR):
        for batch in blocks(rows, folder):
            store.upsert(PAIR, batch)
    missing = store.stamps_without(PAIR, ENCODER)
    for at in range(0, len(missing), BLOCK):
        stamps = missing[at : at + BLOCK]
        forms = {stamp: (passage_form(token_vectors(tokens, stamp)),) for stamp in stamps}
        store.put_encodings(ENCODER, forms)
    store.view(PAIR).close()
    return store


def megabytes(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def timed(runner: Runner, query: str, target: Target, options: RetrieveOptions) -> Times:
    """Milliseconds of one query, and those of the processor in all threads."""
    start, used = time.perf_counter(), time.process_time()
    found = runner.run(retrieve(query, target, options))
    assert found.hits
    return (time.perf_counter() - start) * 1e3, (time.process_time() - used) * 1e3


def row(name: str, times: Sequence[Times], beside: Sequence[Times]) -> dict[str, Any]:
    """A line of the table: medians and 95th percentile."""
    wall, used = (statistics.median(column) for column in zip(*times, strict=True))
    other, other_used = (statistics.median(column) for column in zip(*beside, strict=True))
    return {
        "search": name,
        "p50 ms": round(wall, 1),
        "p95 ms": round(float(np.percentile([first for first, _ in times], 95)), 1),
        "x keyword + dense": round(wall / other, 2),
        "processor p50 ms": round(used, 1),
        "processor x keyword + dense": round(used / other_used, 2),
    }


def measured(rows: int, tokens: int, folder: Path) -> tuple[Table, list[str]]:
    """The table of times, and notes on size."""
    store = opened(rows, tokens, folder)
    view_before = megabytes(folder / "views")
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
    many = RetrieveOptions(pool=MANY, top_k=SHOWN, channels=CHANNELS)
    searches = {"plain": (plain, 0), "late": (late, CANDIDATES), "many": (many, MANY)}
    times: dict[str, list[Times]] = {name: [] for name in (*searches, "all")}
    with Runner(routes) as runner:
        start = time.perf_counter()
        timed(runner, asked[0][0], target(CANDIDATES), late)
        packing = time.perf_counter() - start
        for text, _ in asked[1:10]:  # to warm up
            timed(runner, text, target(CANDIDATES), late)
        for number, (text, _) in enumerate(asked[10:]):
            for name in sorted(searches, reverse=number % 2 == 0):
                with Runner(routes) as fresh:  # searches are remembered within a runner
                    options, candidates = searches[name]
                    times[name].append(timed(fresh, text, target(candidates), options))
        for text, _ in asked[:5]:
            with Runner(routes) as fresh:
                times["all"].append(timed(fresh, text, target(0), late))
    size = store.encoding_size(PAIR, ENCODER)
    lines = [
        row("keyword + dense", times["plain"], times["plain"]),
        row(f"keyword + dense + late over {CANDIDATES} candidates", times["late"], times["plain"]),
        row(f"keyword + dense + late over {MANY} candidates", times["many"], times["plain"]),
        row("keyword + dense + late over every chunk (5 queries)", times["all"], times["plain"]),
    ]
    view = megabytes(folder / "views")
    notes = [
        f"{tokens} vectors a chunk: {size.bytes / size.chunks:,.0f} bytes a chunk in the store; "
        f"the saved view grows from {view_before:,.0f} to {view:,.0f} MB. The first search packs "
        f"it: {packing:.0f} s. {MANY} candidates have as many vectors as {CANDIDATES} chunks of "
        f"{tokens * MANY // CANDIDATES}.",
    ]
    store.close()
    return Table(lines, f"{rows:,} chunks of {tokens} vectors, {len(asked) - 10} queries"), notes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    tables, notes = [], []
    for tokens in chosen.tokens:
        table, more = measured(chosen.rows, tokens, chosen.folder / str(tokens))
        tables.append(table)
        notes += more
    notes.append(
        "Vectors are random. Models are not part of the times: an embedding model adds the same to "
        "every line, a late-interaction model the encoding of the question to the others."
    )
    words = " ".join(map(str, chosen.tokens))
    command = f"python -m benchmarks.late --rows {chosen.rows} --tokens {words} --folder DIR"
    section = Section(
        f"Late interaction over {chosen.rows:,} chunks",
        tables,
        notes,
        f"{command} --publish",
        "channels",
        20,
    )
    print("\n".join(section_lines(section)))
    if chosen.publish:
        publish(f"late-{chosen.rows}", section)


if __name__ == "__main__":
    main()
