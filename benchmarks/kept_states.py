"""What kept states of the SQLite store cost: time of an ingest, and disk.

``python -m benchmarks.kept_states [--documents N] [--publish]`` writes documents of random words,
then changes a tenth of them in each of five further ingests, with and without kept states. Times
are medians over repeated stores, of the writes alone: nothing is read from files or embedded.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from ragwright.core import Document
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, StoreOptions
from ragwright.ingest import ChunkOptions, make_chunker
from ragwright.models import AnalyzerOptions, WordTokenizer, make_analyzer

RESULT = Path(__file__).parents[1] / "docs/results/kept-states.json"
ROUNDS = 5
CHUNKER = make_chunker(ChunkOptions(), WordTokenizer())
PAIR = IndexSpec(CHUNKER.spec, make_analyzer(AnalyzerOptions()).spec)


def documents(numbers: range | list[int], version: int) -> list[IndexedDocument]:
    """Documents of 400 random words."""
    indexed = []
    for number in numbers:
        rng = random.Random(f"{number} {version}")
        words = (f"w{rng.randrange(20_000)}" for _ in range(400))
        document = Document(f"d{number}", f"d{number}", " ".join(words))
        indexed.append(IndexedDocument(document, tuple(CHUNKER.chunks(document))))
    return indexed


def measured(count: int, keep: int) -> tuple[list[float], list[int]]:
    """(seconds, bytes of the file) after the first ingest and after each change."""
    seconds, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        store = SqliteStore(path, StoreOptions(keep_snapshots=keep))
        for version in range(ROUNDS + 1):
            rng = random.Random(version)
            numbers = sorted(rng.sample(range(count), count // 10)) if version else range(count)
            batch = documents(numbers, version)
            began = time.perf_counter()
            for at in range(0, len(batch), 200):
                store.upsert(PAIR, batch[at : at + 200])
            store.keep_state(PAIR)
            seconds.append(time.perf_counter() - began)
            sizes.append(path.stat().st_size)
        store.close()
        sizes[-1] = path.stat().st_size
    return seconds, sizes


def main() -> None:
    """Measure and print; with ``--publish`` also write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    runs: dict[int, list[tuple[list[float], list[int]]]] = {0: [], ROUNDS: []}
    for _ in range(options.repeat):
        for keep, results in runs.items():
            results.append(measured(options.documents, keep))
    first, later, size = {}, {}, {}
    for keep, results in runs.items():
        first[keep] = statistics.median(seconds[0] for seconds, _ in results)
        later[keep] = statistics.median(sum(seconds[1:]) for seconds, _ in results)
        size[keep] = results[0][1][-1]
    document = {
        "documents": options.documents,
        "changed_each_time": options.documents // 10,
        "kept_states": ROUNDS,
        "first_ingest_ratio": round(first[ROUNDS] / first[0], 3),
        "changing_ingest_ratio": round(later[ROUNDS] / later[0], 3),
        "disk_ratio": round(size[ROUNDS] / size[0], 3),
    }
    text = json.dumps(document, indent=2)
    print(text)
    if options.publish:
        RESULT.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
