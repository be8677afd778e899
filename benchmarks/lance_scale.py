"""An index past memory: the Lance store beside the view in memory and LanceDB's own hybrid search.

    OMP_NUM_THREADS=1 python -m benchmarks.lance_scale --rows 100000 --folder DIR [--publish]

Chunks are 40 words sampled from SciFact abstracts, so words
are as frequent as in real text; vectors are a mixture of Gaussians around a thousand centres, so
that neighbours are near. Queries are no rows. Each engine answers in a process of its own, and its
peak memory is that of the process. Hybrid is a keyword search and a dense search for 100 candidates
each, one after the other, for LanceDB its hybrid search for 10 with its defaults. Filters keep a
hundredth and a thousandth of the chunks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import DATA, scifact_beir
from benchmarks.publish import Section, Table, publish, section_lines, versions
from benchmarks.scale import DIMENSIONS, vectors
from ragwright.core import Chunk, Document, Filter, Span
from ragwright.index import IndexedDocument, IndexSpec, LanceStore, SqliteStore, Store, StoreOptions
from ragwright.models import Analyzer

PAIR = IndexSpec("whole", Analyzer().spec, "scale", DIMENSIONS)
BLOCK, WORDS, QUERIES, DEPTH, SHOWN = 5_000, 40, 100, 100, 10
SHARES: dict[str, tuple[Filter, ...]] = {
    "all": (),
    "1 %": (Filter("hundredth", (7,)),),
    "0.1 %": (Filter("thousandth", (7,)),),
}
ENGINES = ("memory", "lance exact", "lance approximate", "lancedb")


def vocabulary(folder: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Words of real abstracts, and how often each occurs; counted once."""
    kept = folder / "words.json"
    if not kept.is_file():
        counts: dict[str, int] = {}
        corpus = scifact_beir(folder / "scifact", DATA) / "corpus.jsonl"
        for line in corpus.read_text("utf-8").splitlines():
            for word in json.loads(line)["text"].split():
                counts[word] = counts.get(word, 0) + 1
        kept.write_text(json.dumps(counts), "utf-8")
    counts = json.loads(kept.read_text("utf-8"))
    shares = np.array(list(counts.values()), np.float64)
    return list(counts), shares / shares.sum()


def blocks(rows: int, folder: Path) -> Iterator[list[IndexedDocument]]:
    """Documents of one chunk, block by block."""
    words, shares = vocabulary(folder)
    known = np.array(words, object)
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        rng = np.random.default_rng(start + 1)
        picked = known[rng.choice(len(words), (size, WORDS), p=shares)]
        found = []
        for at, (row, vector) in enumerate(zip(picked, vectors(size, start + 1), strict=True)):
            number = start + at
            name, text = f"d{number:08d}", " ".join(row)
            kept = {"hundredth": number % 100, "thousandth": number % 1000}
            document = Document(name, name, text, metadata=kept)
            chunk = Chunk(name, name, 0, Span(0, len(text)), text)
            found.append(IndexedDocument(document, (chunk,), vector[None, :]))
        yield found


def questions(folder: Path) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Texts of five words, and vectors; none of them is a row."""
    words, shares = vocabulary(folder)
    rng = np.random.default_rng(10**9)
    texts = [
        " ".join(words[at] for at in rng.choice(len(words), 5, p=shares)) for _ in range(QUERIES)
    ]
    return list(zip(texts, vectors(QUERIES, 10**9), strict=True))


def options(engine: str) -> StoreOptions:
    """Settings of an engine's store."""
    return StoreOptions(
        kind="sqlite" if engine == "memory" else "lance", approximate=engine == "lance approximate"
    )


def opened(engine: str, folder: Path) -> Store:
    """The store of an engine."""
    if engine == "memory":
        return SqliteStore(folder / "store.sqlite", options(engine), views=folder / "views")
    return LanceStore(folder / "store.lance", options(engine))


def build(rows: int, folder: Path) -> dict[str, float]:
    """Write both stores; seconds by step."""
    took: dict[str, float] = {}
    stores = {engine: opened(engine, folder) for engine in ("memory", "lance approximate")}
    for batch in blocks(rows, folder):
        for engine, store in stores.items():
            start = time.perf_counter()
            store.upsert(PAIR, batch)
            key = f"write {engine.split()[0]}"
            took[key] = took.get(key, 0.0) + time.perf_counter() - start
    start = time.perf_counter()
    stores["memory"].view(PAIR).close()
    took["view memory"] = time.perf_counter() - start
    start = time.perf_counter()
    stores["lance approximate"].settle(PAIR)
    took["indexes lance"] = time.perf_counter() - start
    for store in stores.values():
        store.close()
    return took


def searcher(engine: str, folder: Path) -> tuple[Callable[..., Any], Callable[..., list[str]], str]:
    """Both searches of an engine, the dense one alone, and its note."""
    if engine != "lancedb":
        view = opened(engine, folder).view(PAIR)

        def dense(vector: Any, filters: Sequence[Filter]) -> list[str]:
            return [name for name, _ in view.dense(vector[None, :], DEPTH, filters)[0]]

        def hybrid(text: str, vector: Any, filters: Sequence[Filter]) -> Any:
            return view.keyword(text, DEPTH, filters), dense(vector, filters)

        return hybrid, dense, view.approximation(DEPTH)
    import lancedb

    table = lancedb.connect(folder / "store.lance").open_table(f"chunks_{PAIR.key}")

    def where(filters: Sequence[Filter]) -> str:
        return f"array_has(facets, '{filters[0].field}={filters[0].values[0]}')" if filters else ""

    def own_dense(vector: Any, filters: Sequence[Filter]) -> list[str]:
        query = table.search(vector, vector_column_name="vector").distance_type("dot")
        query = query.select(["id", "_distance"]).limit(SHOWN)
        return list(
            (query.where(where(filters)) if filters else query).to_arrow()["id"].to_pylist()
        )

    def own_hybrid(text: str, vector: Any, filters: Sequence[Filter]) -> Any:
        query = table.search(query_type="hybrid", vector_column_name="vector", fts_columns="words")
        query = query.vector(vector).text(text).distance_type("dot").limit(SHOWN)
        query = query.select(["id", "text"])
        return (query.where(where(filters)) if filters else query).to_arrow()

    return own_hybrid, own_dense, ""


def read(engine: str, folder: Path, only: int) -> dict[str, Any]:
    """Ask every query under every filter; times, hits, memory."""
    start = time.perf_counter()
    hybrid, dense, note = searcher(engine, folder)
    found: dict[str, Any] = {"open s": time.perf_counter() - start, "note": note, "shares": {}}
    asked = questions(folder)[:only]
    for name, filters in SHARES.items():
        hybrid(*asked[0], filters)
        times, hits = [], []
        for text, vector in asked:
            start = time.perf_counter()
            hybrid(text, vector, filters)
            times.append((time.perf_counter() - start) * 1e3)
            hits.append(dense(vector, filters)[:SHOWN])
        ranked = sorted(times)
        found["shares"][name] = {
            "p50": statistics.median(times),
            "p99": ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))],
            "hits": hits,
        }
    found["MB"] = peak_mb()
    return found


def peak_mb() -> float:
    """Most resident memory of this process; ``ru_maxrss`` would count the parent's before exec."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def megabytes(folder: Path, *names: str) -> float:
    """Size of the files below these places."""
    roots = [folder / name for name in names]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*"))]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def tables(rows: int, folder: Path, only: int) -> tuple[list[Table], list[str]]:
    """Measure, and put the figures into tables."""
    took: dict[str, float] = {}
    if not (folder / "took.json").is_file():
        took = build(rows, folder)
        (folder / "took.json").write_text(json.dumps(took), "utf-8")
    took = json.loads((folder / "took.json").read_text("utf-8"))
    readers: dict[str, Any] = {}
    for engine in ENGINES:
        command = [sys.executable, "-m", "benchmarks.lance_scale", "--read", engine]
        command += ["--folder", str(folder), "--queries", str(only)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        readers[engine] = json.loads(done.stdout.splitlines()[-1])
        print(f"{engine}: {readers[engine]['MB']:.0f} MB", file=sys.stderr)
    truth = readers["memory"]["shares"]
    rows_of: list[dict[str, Any]] = []
    for engine, reader in readers.items():
        row: dict[str, Any] = {"engine": engine, "open s": reader["open s"]}
        for share, one in reader["shares"].items():
            base = truth[share]
            pairs = zip(one["hits"], base["hits"], strict=True)
            recall = [len(set(a) & set(b)) / max(1, len(b)) for a, b in pairs]
            row[f"{share}: p50 ms"] = round(one["p50"], 1)
            row[f"{share}: p99 ms"] = round(one["p99"], 1)
            row[f"{share}: x memory"] = round(one["p50"] / base["p50"], 2)
            row[f"{share}: recall@10"] = statistics.mean(recall)
        row["peak MB"] = round(reader["MB"])
        rows_of.append(row)
    disk = {
        "memory": megabytes(folder, "store.sqlite", "views"),
        "lance": megabytes(folder, "store.lance"),
    }
    parts: list[dict[str, Any]] = [
        {
            "store": name,
            "write s": took[f"write {name}"],
            "view or indexes s": took["view memory" if name == "memory" else "indexes lance"],
            "MB": round(disk[name]),
            "bytes a chunk": round(disk[name] * 1e6 / rows),
        }
        for name in ("memory", "lance")
    ]
    notes = [f"{engine}: {one['note']}" for engine, one in readers.items() if one["note"]]
    return [Table(rows_of, f"{rows:,} chunks, {only} queries"), Table(parts, "Built")], notes


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--folder", type=Path, required=True, help="where to work; kept afterwards")
    parser.add_argument("--read", choices=ENGINES, default="", help=argparse.SUPPRESS)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.read:
        print(json.dumps(read(chosen.read, chosen.folder, chosen.queries)))
        return
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    measured, notes = tables(chosen.rows, chosen.folder, chosen.queries)
    section = Section(
        f"An index of {chosen.rows:,} chunks",
        measured,
        [*notes, f"Ratios are within one run; {load} when it began."],
        f"python -m benchmarks.lance_scale --rows {chosen.rows} --folder DIR --publish",
        "scale",
        len(str(chosen.rows)),
        conditions=versions("lancedb", "pyarrow"),
    )
    if chosen.publish:
        publish(f"lance-{chosen.rows}", section)
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
