"""A large index: exact beside approximate search, with build times, memory and disk.

    OMP_NUM_THREADS=1 python -m benchmarks.scale [--rows 100000] [--recall 0.98] [--folder DIR]

Rows are made, written and forgotten block by block, so that memory tells of the store and not
of the benchmark. Vectors are those of `benchmarks.index`, around a thousand centres. Recall is
that of queries which are no rows, against the exact answers of the same store; beside it stands
what the index measured itself when it was built.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, StoreOptions, View
from ragwright.models import Analyzer

Matrix = NDArray[np.float32]
DIMENSIONS = 384
DEPTH = 100
QUERIES = 100
BLOCK = 2_000
CENTRES = 1_000


def vectors(count: int, seed: int) -> Matrix:
    """Normalised vectors around centres that are the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((CENTRES, DIMENSIONS), np.float32)
    found = centres[rng.integers(0, CENTRES, count)]
    found = found + rng.standard_normal((count, DIMENSIONS), np.float32)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def blocks(rows: int) -> Iterator[list[IndexedDocument]]:
    """Documents of one chunk and about 20 words each."""
    words = np.array([f"w{n:05d}"[::-1] for n in range(60_000)])
    share = 1.0 / np.arange(1, len(words) + 1)
    share /= share.sum()
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        rng = np.random.default_rng(start + 1)
        picked = words[rng.choice(len(words), (size, 20), p=share)]
        found = []
        for at, (row, vector) in enumerate(zip(picked, vectors(size, start + 1), strict=True)):
            name = f"d{start + at:07d}"
            text = f"{' '.join(row)} {name}"
            chunk = Chunk(name, name, 0, Span(0, len(text)), text)
            found.append(IndexedDocument(Document(name, name, text), (chunk,), vector[None, :]))
        yield found


def median_ms(view: View, queries: Matrix) -> tuple[float, list[set[str]]]:
    """Median of single queries, and what each found."""
    times, found = [], []
    view.dense(queries[:1], DEPTH)
    for query in queries:
        start = time.perf_counter()
        hits = view.dense(query[None, :], DEPTH)[0]
        times.append((time.perf_counter() - start) * 1e3)
        found.append({name for name, _ in hits})
    return statistics.median(times), found


def size_mb(folder: Path, pattern: str) -> float:
    """Megabytes of the files that match."""
    return sum(path.stat().st_size for path in folder.rglob(pattern)) / 1e6


def measure(folder: Path, rows: int, recall: float) -> None:
    """Write, build and ask; print."""
    pair = IndexSpec("whole", Analyzer().spec, "scale", DIMENSIONS)
    start = time.perf_counter()
    store = SqliteStore(folder / "store.sqlite", views=folder / "views")
    for batch in blocks(rows):
        store.upsert(pair, batch)
    print(f"  write       {time.perf_counter() - start:8.1f} s", flush=True)
    start = time.perf_counter()
    exact = store.view(pair)
    print(f"  view        {time.perf_counter() - start:8.1f} s", flush=True)
    queries = vectors(QUERIES, 10**9)
    exact_ms, truth = median_ms(exact, queries)
    print(f"  exact       {exact_ms:8.2f} ms p50 of single dense queries, k {DEPTH}", flush=True)
    exact.close()
    store.close()
    options = StoreOptions(approximate=True, recall=recall)
    start = time.perf_counter()
    store = SqliteStore(folder / "store.sqlite", options, views=folder / "views")
    view = store.view(pair)
    print(f"  approximate {time.perf_counter() - start:8.1f} s to build and to measure")
    near_ms, found = median_ms(view, queries)
    got = sum(len(a & b) / len(b) for a, b in zip(found, truth, strict=True)) / len(truth)
    print(f"  approximate {near_ms:8.2f} ms p50, {exact_ms / near_ms:.1f} times as fast")
    print(f"  recall@{DEPTH}  {got:8.3f} of fresh queries; the index says:")
    print(f"              {view.approximation(DEPTH) or 'nothing: no segment is large enough'}")
    print(
        f"  disk        {size_mb(folder, '*.sqlite'):8.0f} MB store, "
        f"{size_mb(folder, '*.seg'):.0f} MB segments, {size_mb(folder, '*.ann'):.0f} MB approximate"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak RSS    {peak:8.0f} MB, mapped files included")
    store.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--recall", type=float, default=0.98)
    parser.add_argument("--folder", type=Path, default=None, help="where to work; kept afterwards")
    chosen = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"OMP_NUM_THREADS {threads}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    print(f"{chosen.rows:,} rows of {DIMENSIONS} dimensions")
    if chosen.folder is not None:
        measure(chosen.folder, chosen.rows, chosen.recall)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), chosen.rows, chosen.recall)


if __name__ == "__main__":
    main()
