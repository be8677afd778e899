"""Finding the examples of a draft: one relaxed search beside one query for each combination.

    OMP_NUM_THREADS=1 python -m benchmarks.drafts [--records 80000] [--requests 40] [--publish]

Synthetic records as in `benchmarks.relaxed` (200 clients, 12 asks, 3 lengths, up to 4 of 40
topics, up to 3 of 12 tones), with texts assembled as records are and 20 words of a Zipf
distribution each; 384-d random vectors for the searches with vectors. A request has nine soft
filters: client, ask, length and six topics and tones, of a seed record or drawn. Each request is
asked once. `find` is retrieval as `draft` does it, through a runner: query, search, look-up of 30
records; `draft` also puts the first prompt together; `view` is the search alone; `naive` sends 512
queries, strictest first, to the same view, for the first few requests.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.publish import Section, Table, publish
from benchmarks.relaxed import DIMENSIONS, Records, make_records
from ragwright.answer import DraftOptions
from ragwright.core import Chunk, Document, Filter, Relaxation, SoftFilter, Span
from ragwright.drafting import DraftPlan, DraftRequest, draft, find_pool
from ragwright.flow import Embed, Lookup, Runner, Search
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LookupHandler,
    SearchHandler,
    SqliteStore,
    View,
    Views,
)
from ragwright.models import Analyzer, Embedder, Models, model_handlers
from ragwright.records import RecordsSpec, TextFormat, load_spec
from ragwright.retrieve import Target
from ragwright.testing import naive_relaxed

MODEL = "random:vectors"
NAIVE = 5
LENGTHS = ("short", "medium", "long")
WEIGHTS = {"client": 8.0, "ask_type": 5.0, "topic": 3.0, "length": 2.0, "tone": 1.0}


class RandomEmbedder(Embedder):
    """Vectors that say nothing, at no cost: the search is what is timed."""

    identity = MODEL
    dimensions = DIMENSIONS

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A random unit vector a text, the same for the same text."""
        seeds = [int.from_bytes(text.encode()[-8:], "little") for text in texts]
        rows = [np.random.default_rng(s).standard_normal(DIMENSIONS, np.float32) for s in seeds]
        matrix = np.stack(rows)
        return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


def named(field: str, number: int) -> str:
    """A name of its own for each value, as people and topics have."""
    consonants, vowels = "bdfghklmnrstvwz", "aeiou"
    start = {"client": 0, "ask": 1000, "topic": 2000, "tone": 3000}[field] + number
    digits = [start // 15**place % 15 for place in range(4)]
    return "".join(consonants[digit] + vowels[digit % 5] for digit in digits)


def fields_of(records: Records, row: int) -> dict[str, Any]:
    """The fields of a record as a refresh would write them."""
    held = {
        name: tuple(named(name, int(v)) for v in np.flatnonzero(records.fields[name][row]))
        for name in ("topic", "tone")
    }
    return {
        "client": named("client", int(records.fields["client"][row])),
        "ask_type": named("ask", int(records.fields["ask"][row])),
        "length": LENGTHS[records.fields["length"][row]],
        **{name: values for name, values in held.items() if values},
    }


def document(records: Records, row: int, format_: TextFormat, words: Sequence[str]) -> Document:
    """A record as its document."""
    fields = fields_of(records, row)
    full = {**fields, "text": " ".join(words)}
    metadata = {**fields, "kind": "record", "message_at": format_.message_at(full)}
    return Document(f"record:{row}", f"records:{row}", format_.fill(full), metadata=metadata)


def store_of(records: Records, folder: Path, pair: IndexSpec, spec: RecordsSpec) -> SqliteStore:
    """All records in a store."""
    store = SqliteStore(folder / "store.sqlite")
    chance = np.random.default_rng(2)
    for start in range(0, len(records.vectors), 2000):
        batch = []
        for row in range(start, min(start + 2000, len(records.vectors))):
            words = [f"w{n % 20_000}" for n in chance.zipf(1.3, 20)]
            record = document(records, row, spec.format, words)
            end = len(record.text)
            chunk = Chunk(f"{record.id}:0-{end}", record.id, 0, Span(0, end), record.text)
            vectors = records.vectors[row : row + 1] if pair.dimensions else None
            batch.append(IndexedDocument(record, (chunk,), vectors))
        store.upsert(pair, batch)
    return store


def make_request(records: Records, seed: int) -> DraftRequest:
    """What a seed record has, filled up to six topics and tones."""
    fields, chance = fields_of(records, seed), np.random.default_rng(seed)
    topics, tones = list(fields.get("topic", ())), list(fields.get("tone", ()))
    while len(topics) + len(tones) < 6:
        topics = list(dict.fromkeys([*topics, named("topic", int(chance.integers(40)))]))
    return DraftRequest(
        fields["client"],
        fields["ask_type"],
        tuple(topics[: 6 - len(tones)]),
        tuple(tones),
        fields["length"],
    )


def relaxation(request: DraftRequest) -> Relaxation:
    """The request's soft filters."""
    asked = [("client", request.client), ("ask_type", request.ask_type), ("length", request.length)]
    asked += [("topic", topic) for topic in request.topics]
    asked += [("tone", tone) for tone in request.tones]
    return Relaxation(
        tuple(SoftFilter(Filter(name, (value,)), WEIGHTS[name]) for name, value in asked)
    )


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, its milliseconds, and those that this process worked."""
    start, worked = time.perf_counter(), time.process_time()
    result = call()
    ended = time.perf_counter()
    return result, (ended - start) * 1e3, (time.process_time() - worked) * 1e3


def measure(records: Records, folder: Path, search: str, count: int) -> dict[str, Any]:
    """Figures of one way to search."""
    spec = load_spec(folder / "none")
    dimensions = DIMENSIONS if search != "keyword" else 0
    analyzer = Analyzer()
    pair = IndexSpec("whole", analyzer.spec, MODEL if dimensions else "", dimensions)
    store = store_of(records, folder, pair, spec)
    views = Views(store)
    models = Models()
    models.register(MODEL, RandomEmbedder())
    routes = {
        Embed: model_handlers(models)[Embed],
        Search: SearchHandler(views),
        Lookup: LookupHandler(views),
    }
    snapshot = views.snapshot(pair)
    target = Target(snapshot, MODEL if dimensions else "", dimensions, analyzer=analyzer)
    options = DraftOptions(search=search)  # type: ignore[arg-type]
    plan = DraftPlan(options, format=spec.format, rules=spec.rules, preview=True)
    chance = np.random.default_rng(4)
    rows = chance.choice(len(records.vectors), 2 * (count + 3), replace=False)
    requests = [make_request(records, int(row)) for row in rows[: count + 3]]
    others = [make_request(records, int(row)) for row in rows[count + 3 :]]
    times: dict[str, list[float]] = {"find": [], "work": [], "draft": [], "view": [], "naive": []}
    same = 0
    view = views.view(snapshot)
    with Runner(routes) as runner:
        for number, request in enumerate(requests):
            pool, taken, worked = timed(lambda: runner.run(find_pool(request, target, plan)))  # noqa: B023
            # another request, for a runner remembers the searches of this one
            _, whole, _ = timed(lambda: runner.run(draft(others[number], target, plan)))  # noqa: B023
            query = pool.retrieved.query
            alone = timed(partial(_searched, view, query, relaxation(request), dimensions))
            if number < 3:  # files are read into memory
                continue
            times["find"].append(taken)
            times["work"].append(worked)
            times["draft"].append(whole)
            times["view"].append(alone[1])
            if number < 3 + NAIVE:
                naive, slow, _ = timed(
                    partial(_naive, view, query, relaxation(request), dimensions)
                )
                times["naive"].append(slow)
                weights = [_weight(key, request, records) for key, _ in naive.candidates]
                same += weights == [
                    _weight(key, request, records) for key, _ in alone[0].candidates
                ]
    views.close()
    store.close()
    p50 = {name: statistics.median(taken) for name, taken in times.items()}
    p95 = float(np.quantile(times["find"], 0.95))
    return {
        "search": search,
        "find p50 ms": p50["find"],
        "find p95 ms": p95,
        "find CPU p50 ms": p50["work"],
        "draft p50 ms": p50["draft"],
        "view p50 ms": p50["view"],
        "naive p50 ms": p50["naive"],
        "naive / find": p50["naive"] / p50["find"],
        "same weights in order": f"{same} of {NAIVE}",
    }


def _asked(query: str, dimensions: int) -> Any:
    return RandomEmbedder().embed_batch([query])[0] if dimensions else query


HARD = (Filter("kind", ("record",)),)


def _searched(view: View, query: str, relax: Relaxation, dimensions: int) -> Any:
    return view.relaxed(_asked(query, dimensions), 30, relax, HARD)


def _naive(view: View, query: str, relax: Relaxation, dimensions: int) -> Any:
    return naive_relaxed(view, _asked(query, dimensions), 30, relax, HARD)


def _weight(key: str, request: DraftRequest, records: Records) -> float:
    """The weights that a record meets, worked out from its fields."""
    fields = fields_of(records, int(key.split(":")[1]))
    met = 0.0
    for soft in relaxation(request).soft:
        value = fields.get(soft.condition.field, ())
        wanted = soft.condition.values[0]
        met += soft.weight * (wanted in value if isinstance(value, tuple) else wanted == value)
    return met


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
    rows = []
    for search in ("keyword", "dense", "hybrid"):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(records, Path(folder), search, chosen.requests))
        print(
            " | ".join(
                f"{k} {v:.2f}" if isinstance(v, float) else f"{v}" for k, v in rows[-1].items()
            )
        )
    if chosen.publish:
        publish("drafts", section(rows, chosen.records, chosen.requests, threads))


def section(rows: Sequence[dict[str, Any]], records: int, count: int, threads: str) -> Section:
    """What the page of results says."""
    return Section(
        title="Examples for drafts",
        tables=[Table(rows, f"{records:,} records, nine soft filters, {count} requests")],
        notes=[
            "`find` holds query, embedding by a stand-in, search and look-up, through a runner; "
            "`draft` also the first prompt; the naive algorithm its 512 queries alone.",
            "For `hybrid` view and naive search vectors alone.",
        ],
        command="OMP_NUM_THREADS=1 python -m benchmarks.drafts --publish",
        order=41,
        conditions={"OMP_NUM_THREADS": threads},
    )


if __name__ == "__main__":
    main()
