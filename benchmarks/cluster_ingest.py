"""Ingest on a cluster: one node against two, and a Daft script that does the same work.

    python -m benchmarks.cluster_ingest [--pages 20000] [--rounds 1] [--publish]
    python -m benchmarks.cluster_ingest --pages 200000 --way "ray, 2 nodes" --memory --publish

Pages are pieces of the corpora of chunking_eval, repeated with changes. Every figure is of a
process of its own that joins a cluster on this machine, whose nodes have one processor each. All
ways share the machine's cores with the driver. The script reads, cuts and tokenises the pages
with the same functions in a Daft function and writes Parquet; ours also stores them in the index.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.data_sets import DATA
from benchmarks.publish import Cell, Section, Table, publish, section_lines, versions

CORPORA = DATA / "chunking_eval/corpora"
CHARACTERS = 3_000
LANCE = "ray, 2 nodes, lance store"
COMPARED = ("ray, 1 node", "ray, 2 nodes", "Daft script, 2 nodes")
WAYS = ("local", *COMPARED, LANCE)


def make_pages(folder: Path, count: int) -> None:
    """Write pages of real text, each different: a heading, and a piece of a corpus."""
    text = "\n\n".join(path.read_text("utf-8") for path in sorted(CORPORA.glob("*.md")))
    span = len(text) - CHARACTERS
    for number in range(count):
        home = folder / f"{number // 1000:04}"
        home.mkdir(parents=True, exist_ok=True)
        start = number * 2_741 % span
        body = text[start : start + CHARACTERS]
        (home / f"{number:07}.md").write_text(f"# Page {number}\n\n{body}\n", "utf-8")


def prepared(paths: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Rows of the chunks of some pages, made with the functions that ingest uses."""
    from ragwright.index import IndexedDocument, default_analyzer, packed_terms
    from ragwright.ingest import ChunkOptions, FileReader, make_chunker
    from ragwright.models import AnalyzerOptions, WordTokenizer, make_analyzer

    reader = FileReader()
    chunker = make_chunker(ChunkOptions(), WordTokenizer())
    analyzer = default_analyzer(make_analyzer(AnalyzerOptions()).spec)
    for path in paths:
        for document in reader.read_file(Path(path)):
            assert not hasattr(document, "error"), document
            chunks = chunker.chunks(document)
            item = IndexedDocument(document, chunks)
            yield {
                "id": item.document.id,
                "hash": item.content_hash(),
                "chunks": [chunk.text for chunk in chunks],
                "terms": list(packed_terms(analyzer, item)),
            }


def daft_script(folder: Path, target: Path) -> int:
    """The plain script; returns the number of pages."""
    import daft

    daft.set_runner_ray()
    kind = daft.DataType
    row = kind.struct(
        {
            "id": kind.string(),
            "hash": kind.string(),
            "chunks": kind.list(kind.string()),
            "terms": kind.list(kind.binary()),
        }
    )

    @daft.func.batch(return_dtype=row, use_process=False)  # type: ignore[untyped-decorator]
    def read(paths: Any) -> Any:
        return list(prepared(paths.to_pylist()))

    paths = sorted(str(path) for path in folder.rglob("*.md"))
    frame = daft.from_pydict({"path": paths}).into_partitions(max(2, len(paths) // 256))
    frame = frame.select(read(frame["path"]).alias("row"))
    frame = frame.select(*(frame["row"].get(name).alias(name) for name in row_names()))
    frame.write_parquet(str(target))
    return len(paths)


def row_names() -> tuple[str, ...]:
    """Columns of the script's table."""
    return ("id", "hash", "chunks", "terms")


def counted(name: str, *classes: type) -> list[float]:
    """Processor seconds of each call of a method from now on; those of other threads included."""
    spent: list[float] = []
    for kind in classes:
        plain = getattr(kind, name)

        def timed(*given: Any, plain: Any = plain, **named: Any) -> Any:
            start = time.process_time()
            try:
                return plain(*given, **named)
            finally:
                spent.append(time.process_time() - start)

        setattr(kind, name, timed)
    return spent


def child(way: str, pages: Path, work: Path) -> None:
    """One measured run in this process; prints one JSON document."""
    started = time.perf_counter()
    storing: list[float] = []
    settling: list[float] = []
    if way.startswith("Daft"):
        import ray

        ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
        read = daft_script(pages, work / "table")
    else:
        from ragwright import Workbench
        from ragwright.index import LanceStore, SqliteStore

        storing = counted("upsert", LanceStore, SqliteStore)
        settling = counted("settle", LanceStore)
        kind = "lance" if way == LANCE else "sqlite"
        settings = f"sources: [{pages}]\nstore: {{kind: {kind}}}\n"
        (work / "ragwright.yaml").write_text(settings, "utf-8")
        with Workbench.open(work) as bench:
            report = bench.ingest(engine="local" if way == "local" else "ray")
            read = report.counts.added
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {"seconds": seconds, "peak": used.ru_maxrss * 1024, "pages": read}
    figures |= {"storing": sum(storing), "settling": sum(settling)}
    print(json.dumps({**figures, "processor": used.ru_utime + used.ru_stime}))


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """A cluster of nodes of one processor each; its address."""
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 200_000_000}
    ray_cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            ray_cluster.add_node(**size)
        yield str(ray_cluster.address)
    finally:
        ray_cluster.shutdown()


def measured(way: str, pages: Path, count: int) -> dict[str, float]:
    """One run in a process of its own, on a cluster of its own."""
    nodes = 2 if "2 nodes" in way else 1 if "1 node" in way else 0
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(cluster(nodes)) if nodes else ""
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.cluster_ingest", "--child", way),
                *("--folder", str(pages), "--work", str(work)),
            ],
            env={**os.environ, "RAY_ADDRESS": address, "RAY_USAGE_STATS_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{way} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if figures["pages"] != count:
        raise SystemExit(f"{way}: {figures['pages']} pages of {count}")
    return figures


def section(arguments: argparse.Namespace, work: Path) -> Section:
    """Measure, and say it."""
    count = arguments.pages
    make_pages(work / "pages", count)
    ways = [way for way in WAYS if way in (arguments.way or WAYS) or way in COMPARED]
    figures: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way in ways:
            figures[way].append(measured(way, work / "pages", count))
            print(f"{way}: {figures[way][-1]}", file=sys.stderr, flush=True)
    middle = {way: statistics.median(run["seconds"] for run in figures[way]) for way in ways}
    processor = {way: statistics.median(run["processor"] for run in figures[way]) for way in ways}
    ours = middle[WAYS[2]]
    rows: list[Mapping[str, Cell]] = [
        {
            "way": way,
            "seconds": f"{middle[way]:.1f}",
            "pages per second": f"{count / middle[way]:.0f}",
            "of 2 nodes": f"{middle[way] / ours:.2f}",
            "driver processor seconds": f"{processor[way]:.1f}",
            "storing": f"{statistics.median(run['storing'] for run in figures[way]):.1f}",
            "indexing": f"{statistics.median(run['settling'] for run in figures[way]):.1f}",
            "driver memory MB": f"{max(run['peak'] for run in figures[way]) / 1e6:.0f}",
        }
        for way in ways
    ]
    notes = [
        f"Two nodes are {middle[WAYS[1]] / ours:.2f} times as fast as one, and take "
        f"{ours / middle[WAYS[3]]:.2f} of the script's time, which stores no index.",
        "Seconds include joining the cluster and starting the workers. Driver, nodes and the "
        f"cluster's own processes share {os.cpu_count()} cores; the load average was "
        f"{os.getloadavg()[2]:.0f} over the last 15 minutes.",
    ]
    if WAYS[0] in ways:
        share = processor[WAYS[2]] / processor[WAYS[0]]
        notes.append(
            f"The driver spends {share:.2f} of the processor time of an ingest without a cluster: "
            "the rest is done by workers, however many there are."
        )
    if arguments.memory:
        make_pages(work / "tenth", count // 10)
        tenth = measured(WAYS[2], work / "tenth", count // 10)
        figures["tenth"] = [tenth]
        whole = max(run["peak"] for run in figures[WAYS[2]])
        notes.append(
            f"Memory of the driver: {tenth['peak'] / 1e6:.0f} MB at {count // 10:,} pages, "
            f"{whole / 1e6:.0f} MB at {count:,}."
        )
    return Section(
        title=f"Ingest of {count:,} pages on a cluster",
        tables=[Table(rows)],
        notes=notes,
        command=" ".join(
            [
                f"python -m benchmarks.cluster_ingest --pages {count}",
                *(f'--way "{way}"' for way in arguments.way or ()),
                *(["--memory"] if arguments.memory else []),
                "--publish",
            ]
        ),
        page="scale",
        conditions=versions("daft", "ray"),
        data=figures,
    )


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--way",
        action="append",
        choices=WAYS,
        help="else all; one node, two nodes and the script always run",
    )
    parser.add_argument("--memory", action="store_true", help="also a tenth of the pages")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.folder, arguments.work)
        return
    if not CORPORA.is_dir():
        raise SystemExit(f"{CORPORA} is missing")
    work = Path(tempfile.mkdtemp())
    try:
        report = section(arguments, work)
    finally:
        shutil.rmtree(work)
    print("\n".join(section_lines(report)))
    if arguments.publish:
        publish(f"cluster-ingest-{arguments.pages}", report)


if __name__ == "__main__":
    main()
