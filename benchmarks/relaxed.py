"""Relaxed filters in one pass beside one query for each combination, in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.relaxed [--records 80000] [--requests 40] [--publish]

Synthetic records with a client of 200, an ask of 12, a length of 3, up to 4 of 40 topics and up
to 3 of 12 tones; 384-d vectors, 3 % of all pairs above the threshold, 30 records wanted. A
request asks for what a seed record has. The naive version is favoured: its filter masks are
numpy arrays made once for a request, its vectors one matrix in memory, a combination's unseen
rows are compared in batches below 1,024 as one product each, and nothing is looked up. Ours
answers through the view and, second column, through a runner. Both work on float32 with numpy.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.publish import Section, Table, publish
from ragwright.core import Chunk, Document, Filter, Relaxation, SoftFilter, Span
from ragwright.flow import Runner, Search, SearchReply, send
from ragwright.index import IndexedDocument, Pair, SearchHandler, SqliteStore, Views
from ragwright.models import Analyzer

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]
Wanted = Sequence[tuple[str, int]]
Found = list[tuple[int, float, float]]

DIMENSIONS, WANT, BATCH = 384, 30, 1023
FILTERS = (3, 5, 7, 9)
TYPES = {"client": 8.0, "ask": 5.0, "topic": 3.0, "length": 2.0, "tone": 1.0}
PAIR = Pair("whole", Analyzer().spec, "synthetic", DIMENSIONS)


@dataclass(frozen=True)
class Records:
    """Vectors, and per field either one value a record or a matrix of those it holds."""

    vectors: Matrix
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
        return Document(f"r{row:06d}", f"mem:{row}", f"message {row}", metadata=metadata)


@dataclass(frozen=True)
class Request:
    """What a request asks for: filters, the weight of each, a query vector."""

    wanted: Wanted
    weights: tuple[float, ...]
    vector: Matrix


def make_records(count: int) -> Records:
    """Records with the distributions named above, the same on every run."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(64, DIMENSIONS)).astype(np.float32)
    noise = rng.standard_normal((count, DIMENSIONS), np.float32)
    vectors = centres[rng.integers(0, 64, count)] * np.float32(0.9) + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fields: dict[str, NDArray[Any]] = {
        "client": rng.integers(0, 200, count),
        "ask": rng.integers(0, 12, count),
        "length": rng.integers(0, 3, count),
    }
    for name, values, most in (("topic", 40, 4), ("tone", 12, 3)):
        held = np.zeros((count, values), np.bool_)
        sizes = rng.integers(0, most + 1, count)
        order = np.argsort(rng.random(held.shape), axis=1)
        for place in range(most):
            rows = np.flatnonzero(sizes > place)
            held[rows, order[rows, place]] = True
        fields[name] = held
    return Records(vectors, fields)


def make_requests(records: Records, filters: int, count: int, distinct: bool) -> list[Request]:
    """Requests of so many filters: client, ask and length first, then topics and tones."""
    rng = np.random.default_rng(100 + filters)
    fields = records.fields
    have = 3 + fields["topic"].sum(axis=1) + fields["tone"].sum(axis=1)
    found = []
    for seed in rng.choice(np.flatnonzero(have >= filters), count, replace=False):
        extra = [(n, int(v)) for n in ("topic", "tone") for v in np.flatnonzero(fields[n][seed])]
        rng.shuffle(extra)
        first = [(name, int(fields[name][seed])) for name in ("client", "ask", "length")]
        wanted = [*first, *((str(n), int(v)) for n, v in extra)][:filters]
        weights = [TYPES[name] for name, _ in wanted]
        if distinct:
            weights = [float(1 << (filters - 1 - place)) for place in range(filters)]
        query = records.vectors[seed] + 0.02 * rng.standard_normal(DIMENSIONS, np.float32)
        query = np.asarray(query / np.linalg.norm(query), np.float32)
        found.append(Request(wanted, tuple(weights), query))
    return found


def naive(records: Records, request: Request, threshold: float) -> Found:
    """Every combination by total weight; (row, weight, similarity) of the first 30 found."""
    masks = [records.mask(*one) for one in request.wanted]
    size = len(masks)
    combinations = [
        chosen
        for count in range(size, -1, -1)
        for chosen in itertools.combinations(range(size), count)
    ]
    weights = request.weights
    combinations.sort(key=lambda chosen: -sum(weights[place] for place in chosen))
    seen = np.zeros(len(records.vectors), np.bool_)
    found: Found = []
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
            scores = records.vectors[part] @ request.vector
            near = scores >= threshold
            weight = sum(weights[place] for place in chosen)
            fresh += [
                (row, weight, score)
                for row, score in zip(part[near].tolist(), scores[near].tolist(), strict=True)
            ]
        fresh.sort(key=lambda one: -one[2])
        found += fresh
        if len(found) >= WANT:
            break
    return found[:WANT]


def search_of(snapshot: str, request: Request, threshold: float) -> Search:
    """The same request to ours."""
    soft = tuple(
        SoftFilter(Filter(name, (f"{name}{value}",)), weight)
        for (name, value), weight in zip(request.wanted, request.weights, strict=True)
    )
    relax = Relaxation(soft, threshold)
    return Search(snapshot, "dense", WANT, vector=request.vector.tobytes(), relax=relax)


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
    """What a call returns; its milliseconds are added to ``times``."""
    start = time.perf_counter()
    found = call()
    times.append((time.perf_counter() - start) * 1e3)
    return found


def measure(records: Records, views: Views, snapshot: str, count: int) -> list[dict[str, Any]]:
    """A row of figures per number of filters and kind of weights."""
    rng = np.random.default_rng(1)
    picked = rng.integers(0, len(records.vectors), 200)
    probe = records.vectors[picked] @ records.vectors[::40].T
    threshold = float(np.quantile(probe, 0.97))
    view = views.view(snapshot)
    rows = []
    for distinct in (False, True):
        for filters in FILTERS:
            requests = make_requests(records, filters, count, distinct)
            times: dict[str, list[float]] = {
                "naive": [],
                "view": [],
                "runner": [],
                "product": [],
            }
            same = weights = 0
            with Runner({Search: SearchHandler(views)}) as runner:
                for request in requests:
                    search = search_of(snapshot, request, threshold)
                    relax = search.relax
                    assert relax is not None
                    theirs = timed(times["naive"], partial(naive, records, request, threshold))
                    asked = partial(view.relaxed, request.vector, WANT, relax)
                    ours = timed(times["view"], asked)
                    timed(times["product"], partial(np.matmul, records.vectors, request.vector))
                    flow = send(search, SearchReply)
                    sent = timed(times["runner"], partial(runner.run, flow))
                    assert sent == ours
                    ids = [int(key[1:7]) for key, _ in ours.candidates]
                    same += ids == [row for row, _, _ in theirs]
                    weights += weights_of(ours, request) == [w for _, w, _ in theirs]
            p50 = {name: statistics.median(taken) for name, taken in times.items()}
            rows.append(
                {
                    "weights": "all sums distinct" if distinct else "per type",
                    "filters": filters,
                    "combinations": 2**filters,
                    "naive ms": p50["naive"],
                    "view ms": p50["view"],
                    "runner ms": p50["runner"],
                    "one product ms": p50["product"],
                    "ratio": p50["naive"] / p50["view"],
                    "ratio, runner": p50["naive"] / p50["runner"],
                    "same weights in order": f"{weights} of {count}",
                    "same list": f"{same} of {count}",
                }
            )
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=80_000)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--publish", action="store_true", help="keep the figures in docs/results")
    chosen = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"OMP_NUM_THREADS {threads}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    records = make_records(chosen.records)
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(records, Path(folder))
        views = Views(store)
        rows = measure(records, views, views.current(PAIR).snapshot, chosen.requests)
        views.close()
        store.close()
    columns = list(rows[0])
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    if chosen.publish:
        publish("relaxed-filters", section(rows, chosen.records, chosen.requests, threads))


def section(rows: Sequence[dict[str, Any]], records: int, count: int, threads: str) -> Section:
    """What the page of results says."""
    return Section(
        title="Relaxed filters",
        tables=[Table(rows, f"{records:,} records, {count} requests a row, median milliseconds")],
        notes=[
            "The naive algorithm sends one query for each combination of soft filters, strictest "
            "first. It is favoured: numpy masks made once for a request, vectors in memory.",
            "Where combinations weigh the same, one pass merges them and ranks by similarity; the "
            "naive one visits them in turn, so its list differs within equal weights alone. "
            "Where all sums differ both lists should be equal; similarities that round to one at "
            "six digits are ordered by id here, by the last bit there.",
        ],
        command="OMP_NUM_THREADS=1 python -m benchmarks.relaxed --publish",
        order=40,
        conditions={"OMP_NUM_THREADS": threads},
    )


if __name__ == "__main__":
    main()
