"""Relaxed filters beside one query for each combination, in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.relaxed [--records 80000] [--requests 20] [--publish]

Synthetic records of twelve words each and 384-d vectors; a request takes words, vector and
filters from a seed record, and wants 30 records. A vector must be as near as the nearest 3 % of
all pairs. There are three kinds of filters. Mixed: a client of 200, an ask of 12, a length of 3,
then topics (up to 4 of 40 a record) and tones (up to 3 of 12). Narrow: nine fields of 200 values.
Wide: nine fields of 3 values.

The naive version is favoured: its columns, vectors and posting lists are numpy arrays in memory, a
combination's unseen rows are compared in batches below 1,024 as one product each, nothing is
looked up, keywords are scored once for all combinations, and it stops within a weight that
several combinations share. Ours answers through the view. Both work on float32 with numpy. Hybrid
is the keyword and the dense search, one after the other: fusing their lists is the same work for
both.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.publish import Section, Table, publish
from ragwright.core import Chunk, Document, Filter, Relaxation, SoftFilter, Span
from ragwright.flow import SearchReply
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, View
from ragwright.models import Analyzer

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]
Wanted = Sequence[tuple[str, int]]
Found = list[tuple[int, float, float]]
Scores = Callable[[NDArray[np.intp]], NDArray[np.floating]]

DIMENSIONS, WANT, BATCH, REPEATS = 384, 30, 1023, 3
FILTERS = range(1, 10)
KINDS = ("mixed", "narrow", "wide")
CHANNELS = ("keyword", "dense", "hybrid")
TYPES = {"client": 8.0, "ask": 5.0, "topic": 3.0, "length": 2.0, "tone": 1.0}
PAIR = IndexSpec("whole", Analyzer().spec, "synthetic", DIMENSIONS)
WORDS, A_RECORD, A_QUERY = 2000, 12, 3
ONE_VALUE = {
    "client": 200,
    "ask": 12,
    "length": 3,
    **{f"narrow{place}": 200 for place in range(9)},
    **{f"wide{place}": 3 for place in range(9)},
}


@dataclass(frozen=True)
class Records:
    """Vectors, words, and per field one value a record or a matrix of those it holds."""

    vectors: Matrix
    words: NDArray[np.int64]
    fields: dict[str, NDArray[Any]]

    def mask(self, field: str, value: int) -> Mask:
        """Which records hold a value."""
        column = self.fields[field]
        held = column[:, value] if column.ndim == 2 else column == value
        return np.asarray(held, np.bool_)

    def document(self, row: int) -> Document:
        """A record as a document; ids sort as rows do."""
        metadata: dict[str, Any] = {}
        for name, column in self.fields.items():
            if column.ndim == 2:
                metadata[name] = tuple(f"{name}{v}" for v in np.flatnonzero(column[row]))
            else:
                metadata[name] = f"{name}{column[row]}"
        text = " ".join(map(spelt, self.words[row].tolist()))
        return Document(f"r{row:06d}", f"mem:{row}", text, metadata=metadata)


@dataclass(frozen=True)
class Request:
    """What a request asks for: filters, the weight of each, a query text, a query vector."""

    wanted: Wanted
    weights: tuple[float, ...]
    words: tuple[int, ...]
    vector: Matrix

    @property
    def text(self) -> str:
        """The words."""
        return " ".join(map(spelt, self.words))


def spelt(word: int) -> str:
    """A word that no stemmer changes and no stop list holds."""
    return "q" + "".join("bcdfghklmp"[int(digit)] for digit in f"{word:04d}") + "o"


def make_records(count: int) -> Records:
    """Records with the distributions named above, the same on every run."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(64, DIMENSIONS)).astype(np.float32)
    noise = rng.standard_normal((count, DIMENSIONS), np.float32)
    vectors = centres[rng.integers(0, 64, count)] * np.float32(0.9) + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fields: dict[str, NDArray[Any]] = {
        name: rng.integers(0, values, count) for name, values in ONE_VALUE.items()
    }
    for name, values, most in (("topic", 40, 4), ("tone", 12, 3)):
        held = np.zeros((count, values), np.bool_)
        sizes = rng.integers(0, most + 1, count)
        order = np.argsort(rng.random(held.shape), axis=1)
        for place in range(most):
            rows = np.flatnonzero(sizes > place)
            held[rows, order[rows, place]] = True
        fields[name] = held
    share = 1.0 / np.arange(1, WORDS + 1)
    words = rng.choice(WORDS, (count, A_RECORD), p=share / share.sum())
    return Records(vectors, words, fields)


def make_requests(
    records: Records, kind: str, filters: int, count: int, distinct: bool = True
) -> list[Request]:
    """Requests of so many filters; of mixed ones client, ask and length come first."""
    rng = np.random.default_rng(100 + filters)
    fields = records.fields
    have = 3 + fields["topic"].sum(axis=1) + fields["tone"].sum(axis=1)
    requests = []
    for seed in rng.choice(np.flatnonzero(have >= filters), count, replace=False):
        names = [f"{kind}{place}" for place in range(9)]
        extra: list[tuple[str, int]] = []
        if kind == "mixed":
            names = ["client", "ask", "length"]
            extra = [
                (n, int(v)) for n in ("topic", "tone") for v in np.flatnonzero(fields[n][seed])
            ]
            rng.shuffle(extra)
        first = [(name, int(fields[name][seed])) for name in names]
        wanted = [*first, *((str(n), int(v)) for n, v in extra)][:filters]
        if distinct:
            weights = [float(1 << (filters - 1 - place)) for place in range(filters)]
        else:
            weights = [TYPES[name] for name, _ in wanted]
        query = records.vectors[seed] + 0.02 * rng.standard_normal(DIMENSIONS, np.float32)
        query = np.asarray(query / np.linalg.norm(query), np.float32)
        words = tuple(dict.fromkeys(records.words[seed].tolist()))[:A_QUERY]
        requests.append(Request(wanted, tuple(weights), words, query))
    return requests


def naive(records: Records, request: Request, scores: Scores, threshold: float) -> Found:
    """Every combination by total weight; (row, weight, score) of the first 30 found."""
    masks = [records.mask(*condition) for condition in request.wanted]
    size = len(masks)
    combinations = [
        chosen
        for count in range(size, -1, -1)
        for chosen in itertools.combinations(range(size), count)
    ]
    weights = request.weights
    combinations.sort(key=lambda chosen: -sum(weights[place] for place in chosen))
    seen = np.zeros(len(records.vectors), np.bool_)
    retrieved: Found = []
    for chosen in combinations:
        mask = ~seen
        for place in chosen:
            mask &= masks[place]
        rows = np.flatnonzero(mask)
        if not len(rows):
            continue
        seen[rows] = True
        fresh: Found = []
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            some = scores(part)
            near = some >= threshold
            weight = sum(weights[place] for place in chosen)
            fresh += [
                (row, weight, score)
                for row, score in zip(part[near].tolist(), some[near].tolist(), strict=True)
            ]
        fresh.sort(key=lambda entry: -entry[2])
        retrieved += fresh
        if len(retrieved) >= WANT:
            break
    return retrieved[:WANT]


Postings = Mapping[int, tuple[NDArray[np.intp], NDArray[np.float64]]]


def postings_of(view: View, records: Records) -> Postings:
    """Per word the records that hold it and what it adds to the score of each."""
    postings = {}
    for word in range(WORDS):
        held = view.keyword(spelt(word), len(records.vectors))
        postings[word] = (
            np.array([int(key[1:7]) for key, _ in held], np.intp),
            np.array([score for _, score in held], np.float64),
        )
    return postings


def keyword_scores(records: Records, postings: Postings, request: Request) -> Matrix:
    """BM25 scores of all records, rounded as ours are."""
    lists = [postings[word] for word in request.words]
    rows, gains = (np.concatenate(part) for part in zip(*lists, strict=True))
    return np.asarray(np.rint(np.bincount(rows, gains, len(records.vectors)) * 1e6) / 1e6)


def naive_keyword(records: Records, view: View, scores: Matrix, request: Request) -> Found:
    """The naive algorithm over BM25 scores, for the price of one plain keyword search."""
    view.keyword(request.text, WANT)
    return naive(records, request, scores.take, 1e-6)


def naive_dense(records: Records, threshold: float, request: Request) -> Found:
    """The naive algorithm over similarities."""
    vectors, query = records.vectors, request.vector
    return naive(records, request, lambda rows: vectors[rows] @ query, threshold)


def asked(view: View, channel: str, threshold: float, request: Request) -> SearchReply:
    """The same request to ours."""
    soft = tuple(
        SoftFilter(Filter(name, (f"{name}{value}",)), weight)
        for (name, value), weight in zip(request.wanted, request.weights, strict=True)
    )
    if channel == "keyword":
        return view.relaxed(request.text, WANT, Relaxation(soft))
    return view.relaxed(request.vector, WANT, Relaxation(soft, threshold))


def weights_of(reply: SearchReply, request: Request) -> list[float]:
    """Weight of each candidate's rung."""
    return [
        sum(weight for place, weight in enumerate(request.weights) if rung >> place & 1)
        for rung in reply.rungs
    ]


def store_of(records: Records, folder: Path) -> SqliteStore:
    """The records in a store, a chunk each."""
    store = SqliteStore(folder / "store.sqlite")
    for start in range(0, len(records.vectors), 2000):
        batch = []
        for row in range(start, min(start + 2000, len(records.vectors))):
            document = records.document(row)
            end = len(document.text)
            chunk = Chunk(f"{document.id}:0-{end}", document.id, 0, Span(0, end), document.text)
            batch.append(IndexedDocument(document, (chunk,), records.vectors[row : row + 1]))
        store.upsert(PAIR, batch)
    return store


def timed(times: list[float], call: Callable[[], Any]) -> Any:
    """What a call returns; its milliseconds of one core are added to ``times``."""
    start = time.thread_time()
    result = call()
    times.append((time.thread_time() - start) * 1e3)
    return result


def measure(records: Records, view: View, count: int) -> list[dict[str, Any]]:
    """A row of figures per kind of filters, channel and number of filters."""
    rng = np.random.default_rng(1)
    picked = rng.integers(0, len(records.vectors), 200)
    probe = records.vectors[picked] @ records.vectors[::40].T
    threshold = float(np.quantile(probe, 0.97))
    postings = postings_of(view, records)

    def rival(channel: str, request: Request) -> Callable[[], Found]:
        if channel == "dense":
            return partial(naive_dense, records, threshold, request)
        scores = keyword_scores(records, postings, request)
        return partial(naive_keyword, records, view, scores, request)

    rows = []
    for kind, filters in itertools.product(KINDS, FILTERS):
        for distinct in (True, False) if kind == "mixed" else (True,):
            requests = make_requests(records, kind, filters, count, distinct)
            taken: dict[str, tuple[list[float], list[float]]] = {}
            agree: dict[str, list[tuple[bool, bool]]] = {}
            for channel in ("keyword", "dense"):
                ask = partial(asked, view, channel, threshold)
                taken[channel] = [], []
                agree[channel] = []
                for request in requests:
                    for _ in range(REPEATS):
                        theirs = timed(taken[channel][0], rival(channel, request))
                        ours = timed(taken[channel][1], partial(ask, request))
                    ids = [int(key[1:7]) for key, _ in ours.candidates]
                    same = ids == [row for row, _, _ in theirs]
                    alike = weights_of(ours, request) == [w for _, w, _ in theirs]
                    agree[channel].append((same, alike))
            both = zip(taken["keyword"], taken["dense"], strict=True)
            first, second = ([k + d for k, d in zip(*pair, strict=True)] for pair in both)
            taken["hybrid"] = first, second
            for channel in CHANNELS:
                naive_ms, view_ms = map(statistics.median, taken[channel])
                agreed = agree.get(channel)
                rows.append(
                    {
                        "filters are": kind,
                        "weights": "all sums distinct" if distinct else "per type",
                        "channel": channel,
                        "filters": filters,
                        "naive ms": naive_ms,
                        "view ms": view_ms,
                        "naive / view": naive_ms / view_ms,
                        "same weights in order": agreed and sum(alike for _, alike in agreed),
                        "same list": agreed and sum(same for same, _ in agreed),
                    }
                )
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=80_000)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--publish", action="store_true", help="keep the figures in docs/results")
    chosen = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"OMP_NUM_THREADS {threads}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    records = make_records(chosen.records)
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(records, Path(folder))
        rows = measure(records, store.view(PAIR), chosen.requests)
        store.close()
    columns = list(rows[0])
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    if chosen.publish:
        publish("relaxed-filters", section(rows, chosen.records, chosen.requests, threads))


def section(rows: Sequence[dict[str, Any]], records: int, count: int, threads: str) -> Section:
    """What the page of results says."""
    caption = (
        f"{records:,} records, {count} requests a row, 30 wanted, median milliseconds of one core"
    )
    return Section(
        title="Relaxed filters",
        tables=[Table(rows, caption)],
        notes=[
            "The naive algorithm sends one query for each combination of soft filters, strictest "
            "first, and stops when it has 30. It is favoured: numpy columns, vectors and posting "
            "lists in memory.",
            "Mixed filters are a client of 200, an ask of 12, a length of 3, then topics and "
            "tones; narrow ones nine fields of 200 values; wide ones nine fields of 3 values.",
            "Where combinations weigh the same (weights per type), ours merges them and ranks by "
            "score; the naive one visits them in turn and may stop between them, so its list "
            "differs within equal weights. Where all sums differ the lists should be equal; "
            "scores that round to one at six digits are ordered by id here, by the last bit there.",
        ],
        command="OMP_NUM_THREADS=1 python -m benchmarks.relaxed --publish",
        order=40,
        conditions={"OMP_NUM_THREADS": threads},
    )


if __name__ == "__main__":
    main()
