"""Helpers for the benchmarks of search channels: a store of encoded chunks, look-ups, timing."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.lance_scale import PAIR, blocks
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

ENCODER = "synthetic"
BLOCK = 1_000
Routes: TypeAlias = Mapping[type[Any], Any]
Times: TypeAlias = tuple[float, float]
"""Milliseconds of the clock, and of the processor in all threads."""


class Known(BatchHandler[Any, Any]):
    """Vectors of questions by their text: no model runs.

    Args:
        vectors: Embeddings.
        encode: Encoding of a question, by its number.
    """

    def __init__(self, vectors: Mapping[str, Any], encode: Callable[[int], bytes]) -> None:
        self._vectors = vectors
        self._encodings = {text: encode(number) for number, text in enumerate(vectors)}

    def durable(self, request: Any) -> bool:
        """Nothing is stored."""
        return False

    def carry(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Known replies."""
        return [
            EncodeReply(tuple(self._encodings[text] for text in request.texts))
            if isinstance(request, Encode)
            else EmbedReply(np.stack([self._vectors[text] for text in request.texts]))
            for request in requests
        ]


@contextmanager
def filled(rows: int, folder: Path, encode: Callable[[int], bytes]) -> Iterator[SqliteStore]:
    """The store, filled if it is empty, with a view that holds no data of the channel yet.

    Args:
        rows: Chunks, one for each document.
        folder: Place of the store and its views.
        encode: Encoding of a chunk, by the stamp of its document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "views", ignore_errors=True)
    store = SqliteStore(folder / "store.sqlite", views=folder / "views")
    try:
        if not store.holds(PAIR):
            for batch in blocks(rows, folder):
                store.upsert(PAIR, batch)
        missing = store.stamps_without(PAIR, ENCODER)
        for at in range(0, len(missing), BLOCK):
            stamps = missing[at : at + BLOCK]
            store.put_encodings(ENCODER, {stamp: (encode(stamp),) for stamp in stamps})
        store.view(PAIR).close()
        yield store
    finally:
        store.close()


def routes_of(store: SqliteStore, known: Known) -> Routes:
    """Handlers over the views of a store."""
    views = Views(store)
    return {
        Search: SearchHandler(views),
        Lookup: LookupHandler(views),
        Embed: known,
        Encode: known,
    }


def target_of(store: SqliteStore, channel: str, candidates: int = 0) -> Target:
    """The present state, with one channel beside keyword and dense."""
    coded = EncodedSearch(channel, f"bench:{channel}", ENCODER, candidates=candidates)
    return Target(
        store.snapshot(PAIR),
        "bench:dense",
        PAIR.dimensions,
        analyzer=default_analyzer(PAIR.analyzer),
        encoded=(coded,),
    )


def timed(routes: Routes, query: str, target: Target, options: RetrieveOptions) -> Times:
    """The time of one question, in a runner of its own, as one remembers its searches."""
    with Runner(routes) as runner:
        start, used = time.perf_counter(), time.process_time()
        assert runner.run(retrieve(query, target, options)).hits
        return (time.perf_counter() - start) * 1e3, (time.process_time() - used) * 1e3


def line(name: str, times: Sequence[Times], beside: Sequence[Times]) -> dict[str, Any]:
    """A line of a table: medians and 95th percentile, and their ratios to another search."""
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


def megabytes(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
