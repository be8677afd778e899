"""A large index on disk: the Lance store beside the view in memory and LanceDB's hybrid search.

    OMP_NUM_THREADS=1 python -m benchmarks.lance_scale --rows 100000 --folder DIR [--publish]

Chunks are 40 words sampled from SciFact abstracts, so words are as frequent as in real text;
vectors are a mixture of Gaussians around a thousand centres, so that each has near neighbours. No
query is a row of the index. Each engine answers in a process of its own, and its peak memory is
that of the process. Hybrid is a keyword search and a dense search for 100 candidates each, one
after the other; for LanceDB it is its hybrid search for 10 with its defaults. Filters keep a tenth,
a hundredth and a thousandth of the chunks. Steps of building are also given in processor seconds,
since other programs used the machine; on two cores, wall time is at least half of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
    "10 %": (Filter("hundredth", tuple(range(7, 100, 10))),),
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
        block = []
        for at, (row, vector) in enumerate(zip(picked, vectors(size, start + 1), strict=True)):
            number = start + at
            name, text = f"d{number:08d}", " ".join(row)
            kept = {"hundredth": number % 100, "thousandth": number % 1000}
            document = Document(name, name, text, metadata=kept)
            chunk = Chunk(name, name, 0, Span(0, len(text)), text)
            block.append(IndexedDocument(document, (chunk,), vector[None, :]))
        yield block


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


def build(rows: int, folder: Path) -> dict[str, Any]:
    """What it took to write both stores and to prepare them, each step in a process of its own."""
    kept = folder / "took.json"
    took: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    for step in ("write", "settle"):
        for name in ("memory", "lance"):
            if f"{step} {name}" not in took:
                words = (f"--{step}", name, "--rows", str(rows), "--folder", str(folder))
                took[f"{step} {name}"] = asked(*words)
                kept.write_text(json.dumps(took), "utf-8")
    return took


def write(name: str, rows: int, folder: Path) -> list[tuple[float, float]]:
    """Write a store; seconds and processor seconds of each batch."""
    took = []
    store = opened("memory" if name == "memory" else "lance approximate", folder)
    for batch in blocks(rows, folder):
        start, used = time.perf_counter(), time.process_time()
        store.upsert(PAIR, batch)
        took.append((time.perf_counter() - start, time.process_time() - used))
    store.close()
    return took


def settle(name: str, folder: Path) -> dict[str, float]:
    """Prepare what was written for searching."""
    start, used = time.perf_counter(), time.process_time()
    if name == "memory":
        opened("memory", folder).view(PAIR).close()
    else:
        opened("lance approximate", folder).settle(PAIR)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    return {"seconds": seconds, "processor": used, "MB": peak_mb()}


def asked(*words: str) -> Any:
    """What a process of its own found out."""
    command = [sys.executable, "-m", "benchmarks.lance_scale", *words]
    quiet = {**os.environ, "LANCE_LOG": "error"}
    done = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


Search = Callable[..., Any]


def searcher(engine: str, folder: Path) -> tuple[Search, Search | None, str]:
    """Both searches of an engine, the dense one alone where they do not tell it, and a note."""
    if engine != "lancedb":
        view = opened(engine, folder).view(PAIR)

        def hybrid(text: str, vector: Any, filters: Sequence[Filter]) -> Any:
            near = view.dense(vector[None, :], DEPTH, filters)[0]
            return view.keyword(text, DEPTH, filters), [name for name, _ in near]

        return hybrid, None, view.approximation(DEPTH)
    import lancedb

    table = lancedb.connect(folder / "store.lance").open_table(f"chunks_{PAIR.key}")

    def where(filters: Sequence[Filter]) -> str:
        condition = next(iter(filters), None)
        values = [f"'{condition.field}={value}'" for value in condition.values] if condition else []
        return f"array_has_any(facets, [{', '.join(values)}])" if values else ""

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
    result: dict[str, Any] = {"open s": time.perf_counter() - start, "note": note, "shares": {}}
    asked = questions(folder)[:only]
    for name, filters in SHARES.items():
        hybrid(*asked[0], filters)
        times, hits = [], []
        for text, vector in asked:
            start = time.perf_counter()
            got = hybrid(text, vector, filters)
            times.append((time.perf_counter() - start) * 1e3)
            hits.append((dense(vector, filters) if dense else got[1])[:SHOWN])
        ranked = sorted(times)
        result["shares"][name] = {
            "p50": statistics.median(times),
            "p99": ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))],
            "hits": hits,
        }
    result["MB"] = peak_mb()
    return result


def peak_mb() -> float:
    """Most resident memory of this process; ``ru_maxrss`` would count the parent's before exec."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def megabytes(folder: Path, *names: str) -> float:
    """Size of the files below these places."""
    roots = [folder / name for name in names]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*"))]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


COLUMNS = {
    "vectors (float32)": ("vector",),
    "text": ("text",),
    "tokens": ("words", "terms", "counts", "length"),
}
INDEXES = {"vector": "vector index (RQ)", "words": "inverted index", "terms": "index of terms"}
SAMPLED = 100_000


def parts(folder: Path, rows: int) -> list[dict[str, Any]]:
    """Bytes of a chunk by part, without the versions that are kept for an hour.

    Columns are written alone, at most 100,000 rows of them; what is left of the files is `others`.
    """
    import lancedb

    db = lancedb.connect(folder / "store.lance")
    chunks, documents = (db.open_table(f"{name}_{PAIR.key}") for name in ("chunks", "documents"))
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for name, columns in COLUMNS.items():
            some = chunks.search().select(list(columns)).limit(SAMPLED).to_arrow()
            alone = lancedb.connect(place).create_table("alone", some, mode="overwrite")
            sizes[name] = alone.stats()["total_bytes"] / len(some)
    indexes = {index.columns[0]: index.size_bytes / rows for index in chunks.list_indices()}
    others = chunks.stats()["total_bytes"] / rows - sum(sizes.values()) - sum(indexes.values())
    sizes["ids, places, metadata, facets"] = others
    sizes |= {INDEXES[name]: indexes.pop(name, 0.0) for name in INDEXES}
    sizes["indexes of facets, ids and dates"] = sum(indexes.values())
    sizes["document, with its text and index"] = documents.stats()["total_bytes"] / rows
    all_of = sum(sizes.values())
    listed: list[dict[str, Any]] = [
        {"part": name, "bytes a chunk": round(size), "share": size / all_of}
        for name, size in {**sizes, "together": all_of}.items()
    ]
    return listed


def searches(readers: dict[str, Any]) -> list[dict[str, Any]]:
    """Times and recall of each engine under each filter."""
    truth = readers["memory"]["shares"]
    rows: list[dict[str, Any]] = []
    for share, base in truth.items():
        for engine, reader in readers.items():
            figures = reader["shares"][share]
            pairs = zip(figures["hits"], base["hits"], strict=True)
            recall = [len(set(a) & set(b)) / max(1, len(b)) for a, b in pairs]
            rows.append(
                {
                    "chunks": share,
                    "engine": engine,
                    "hybrid p50 ms": round(figures["p50"], 1),
                    "p99 ms": round(figures["p99"], 1),
                    "p50 x memory": round(figures["p50"] / base["p50"], 2),
                    "recall@10": statistics.mean(recall),
                }
            )
    return rows


def building(took: dict[str, Any], folder: Path, rows: int) -> list[dict[str, Any]]:
    """What each store cost to write and to prepare."""
    disk = {
        "memory": megabytes(folder, "store.sqlite", "views"),
        "lance": megabytes(folder, "store.lance"),
    }
    lines: list[dict[str, Any]] = []
    for name, size in disk.items():
        written, ready = took[f"write {name}"], took[f"settle {name}"]
        tenth = max(1, len(written) // 10)
        first, last = (
            sum(processor for _, processor in some) * 1e3 / (BLOCK * len(some))
            for some in (written[:tenth], written[-tenth:])
        )
        lines.append(
            {
                "store": name,
                "write s": sum(wall for wall, _ in written),
                "write processor s": sum(processor for _, processor in written),
                "ms a chunk, first tenth": first,
                "last tenth": last,
                "view or indexes s": ready["seconds"],
                "their processor s": ready["processor"],
                "their peak MB": round(ready["MB"]),
                "MB on disk": round(size),
                "bytes a chunk": round(size * 1e6 / rows),
            }
        )
    return lines


def tables(rows: int, folder: Path, only: int) -> tuple[list[Table], list[str]]:
    """Measure, and put the figures into tables."""
    took = build(rows, folder)
    readers: dict[str, Any] = {}
    for engine in ENGINES:
        words = ("--read", engine, "--folder", str(folder), "--queries", str(only))
        readers[engine] = asked(*words)
        print(f"{engine}: {readers[engine]['MB']:.0f} MB", file=sys.stderr)
    memory: list[dict[str, Any]] = [
        {"engine": engine, "open s": figures["open s"], "peak MB": round(figures["MB"])}
        for engine, figures in readers.items()
    ]
    notes = [
        f"{engine}: {figures['note']}" for engine, figures in readers.items() if figures["note"]
    ]
    return [
        Table(searches(readers), f"{rows:,} chunks, {only} queries"),
        Table(memory, "A reader: time to open, and its memory after all searches"),
        Table(building(took, folder, rows), "Built"),
        Table(parts(folder, rows), "What the lance store keeps of a chunk"),
    ], notes


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--folder", type=Path, required=True, help="where to work; kept afterwards")
    parser.add_argument("--read", choices=ENGINES, default="", help=argparse.SUPPRESS)
    for step in ("--write", "--settle"):
        parser.add_argument(step, choices=("memory", "lance"), default="", help=argparse.SUPPRESS)
    parser.add_argument("--publish", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.read:
        print(json.dumps(read(chosen.read, chosen.folder, chosen.queries)))
        return
    if chosen.write:
        print(json.dumps(write(chosen.write, chosen.rows, chosen.folder)))
        return
    if chosen.settle:
        print(json.dumps(settle(chosen.settle, chosen.folder)))
        return
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    measured, notes = tables(chosen.rows, chosen.folder, chosen.queries)
    section = Section(
        f"An index of {chosen.rows:,} chunks",
        measured,
        [
            *notes,
            "Filters that keep up to 20,000 chunks are answered exactly.",
            "The row `lancedb` asks the tables and indexes that ragwright built with LanceDB's "
            "defaults, which refine no candidate by its vector.",
            "The lance store keeps the versions of the last hour; its bytes on disk are those "
            "right after maintenance, which wrote each file anew. The last table leaves them out.",
            f"Ratios are within one run; {load} when it began, "
            f"{os.getloadavg()[0]:.1f} at its end.",
        ],
        f"python -m benchmarks.lance_scale --rows {chosen.rows} --queries {chosen.queries} "
        "--folder DIR --publish",
        "scale",
        len(str(chosen.rows)),
        conditions=versions("lancedb", "pyarrow"),
    )
    if chosen.publish:
        publish(f"lance-{chosen.rows}", section)
    print("\n".join(section_lines(section)))


if __name__ == "__main__":
    main()
