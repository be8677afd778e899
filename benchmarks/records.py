"""Records from raw to assembled: a refresh beside the PySpark job and a plain Python loop.

    python -m benchmarks.records [--rows 80000] [--rounds 3] [--spark PYTHON_WITH_PYSPARK]
        [--publish]

15 cleaning patterns, empty and long texts out, duplicates of (client, text) out, 40 tags, a
template, a hash a row: rows, patterns and the PySpark job are those of the script in
../shared/anchors/peers. Every figure is of a process of its own: from its start to its end
("process"), and of that the refresh alone, in a process that has opened the project ("work").
Memory is the most that the process and its children held together. The ways take turns; medians.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import records_project as projects
from benchmarks.publish import Cell, Section, Table, publish, section_lines, versions

COMMAND = "from ragwright.app import main; main()"
WORK = """
import json, sys, time
from ragwright import Workbench
from ragwright.drafting import RefreshOptions
with Workbench.open(sys.argv[1]) as bench:
    records = bench.records
    started = time.perf_counter()
    report = records.refresh(RefreshOptions(index=False))
    print(json.dumps({"work": time.perf_counter() - started, **report.as_dict()}))
"""
COMPILED = Path(tempfile.gettempdir()) / "ragwright-bench" / "compiled"
_SETTLED = 2.5
"""Seconds after which a file that looks the same is taken for the same."""

STAGES = ("first", "unchanged", "1 % of rows changed", "one tag's pattern changed")


@dataclass(frozen=True)
class Taken:
    """A process: wall seconds, most bytes of it and its children at once, what it printed."""

    seconds: float
    peak: int
    printed: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON on its last line, or as all of what it printed."""
        text = self.printed.strip()
        last = text.splitlines()[-1]
        parsed: dict[str, Any] = json.loads(text if text.startswith("{\n") else last.lstrip("@"))
        return parsed


def tree(process: int) -> Iterator[int]:
    """A process and all that it started."""
    yield process
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def held(process: int) -> int:
    """Bytes of memory of a process, shared pages by their share."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def run(command: Sequence[str], folder: Path, **environment: str) -> Taken:
    """A command, its time and its memory; modules are compiled once, as where it is installed."""
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(COMPILED)}
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=err, env={**os.environ, **environment}
        )
        peak = 0
        ended = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.wait(0.1):
                peak = max(peak, sum(held(pid) for pid in tree(process.pid)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            process.wait()
            seconds = time.perf_counter() - started
        finally:
            process.kill()
            ended.set()
            watcher.join()
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise SystemExit(f"{command} failed:\n{err.read()[-3000:]}")
        return Taken(seconds, peak, out.read())


def refreshed(folder: Path, *flags: str, **environment: str) -> Taken:
    """``ragwright records refresh`` as a user runs it."""
    command = [sys.executable, "-c", COMMAND, "records", "refresh", "--json", "-q", *flags]
    return run(command, folder, **environment)


def worked(folder: Path, **environment: str) -> Taken:
    """The refresh alone; its seconds are under ``work`` of the document."""
    return run([sys.executable, "-c", WORK, str(folder)], folder, **environment)


def by_script(kind: str, python: str, rows: int, work: Path) -> Taken:
    """The script's own job: ``spark``, or the ``plain`` loop."""
    script = str(projects.PEERS / "peers_records.py")
    command = [python, script, "--rows", str(rows), "--child", kind, "1"]
    return run(command, work, PEERS_WORK=str(work))


class Job:
    """One round on some rows: a first refresh, and three more after changes."""

    def __init__(self, script: ModuleType, rows: Path, folder: Path, seed: int) -> None:
        self.rows = folder / "rows.jsonl"
        self.folder = projects.declare(folder, script, self.rows)
        shutil.copyfile(rows, self.rows)
        time.sleep(_SETTLED)  # a file that changed just now may change again unseen: it is read
        self._raw, self._seed = rows, seed

    def stages(self) -> Iterator[str]:
        """Names of the stages; each is prepared as it is reached."""
        for stage in STAGES:
            if stage == STAGES[2]:
                projects.change_rows(self._raw, self.rows, self._seed)
            if stage == STAGES[3]:
                projects.change_tag(self.folder)
            yield stage


def documents(folder: Path) -> set[str]:
    """The documents of gold, as their users see them."""
    from ragwright import Workbench

    with Workbench.open(folder) as bench:
        return {
            text
            for batch in bench.records.tables.read("gold", ["document"])
            for text in batch.column("document").to_pylist()
        }


def equal_to_plain(script: ModuleType, rows: Path, folder: Path) -> tuple[int, int]:
    """Documents of a first refresh, and how many differ from those of the plain loop."""
    job = Job(script, rows, folder, 0)
    refreshed(job.folder, "--no-index")
    ours = documents(job.folder)
    ordered = projects.sorted_by_key(rows, folder / "sorted.jsonl")
    theirs = {body for _, body, _ in script.plain(str(ordered))}
    return len(ours), len(ours ^ theirs)


Figures = dict[str, dict[str, list[float]]]


def note(figures: Figures, name: str, what: str, value: float) -> None:
    """One more value of a figure."""
    figures.setdefault(name, {}).setdefault(what, []).append(value)


def rounds(script: ModuleType, rows: Path, arguments: argparse.Namespace, work: Path) -> Figures:
    """Every way on the rows of the job, taking turns."""
    figures: Figures = {}
    count = arguments.rows
    for number in range(arguments.rounds):
        whole = Job(script, rows, work / f"whole-{number}", number)
        for stage in whole.stages():
            taken = refreshed(whole.folder, "--no-index")
            note(figures, stage, "process", taken.seconds)
            note(figures, stage, "memory", taken.peak)
        alone = Job(script, rows, work / f"alone-{number}", number)
        for stage in alone.stages():
            note(figures, stage, "work", worked(alone.folder).document["work"])
        indexed = Job(script, rows, work / f"index-{number}", number)
        for stage in indexed.stages():
            note(figures, stage, "with index", refreshed(indexed.folder).seconds)
        taken = by_script("plain", sys.executable, count, work)
        note(figures, "plain Python loop", "process", taken.seconds)
        note(figures, "plain Python loop", "memory", taken.peak)
        note(figures, "plain Python loop", "work", taken.document["work_s"])
        if arguments.spark:
            taken = by_script("spark", arguments.spark, count, work)
            note(figures, "PySpark local[2]", "process", taken.seconds)
            note(figures, "PySpark local[2]", "memory", taken.peak)
            note(figures, "PySpark local[2]", "work", taken.document["runs"][0]["total_s"])
        for folder in (whole.folder, alone.folder, indexed.folder):
            shutil.rmtree(folder)
    return figures


def table(figures: Figures, caption: str, base: str = "") -> Table:
    """Medians; ``base`` names the row that the others are divided by."""
    rows: list[Mapping[str, Cell]] = []
    bottom = statistics.median(figures[base]["process"]) if base else 0.0
    for name, series in figures.items():
        row: dict[str, Cell] = {"run": name}
        for what in ("process", "work", "with index"):
            if what in series:
                row[f"{what} s"] = f"{statistics.median(series[what]):.2f}"
        if base:
            row[f"of {base} (process)"] = f"{statistics.median(series['process']) / bottom:.2f}"
        if "memory" in series:
            row["memory MB"] = f"{max(series['memory']) / 1e6:.0f}"
        rows.append(row)
    heads = dict.fromkeys(head for row in rows for head in row)
    return Table([{head: row.get(head) for head in heads} for row in rows], caption)


def ratios(figures: Figures) -> list[str]:
    """The figures that the specification asks for."""

    def middle(name: str, what: str) -> float:
        return statistics.median(figures[name][what])

    lines = []
    for name in ("PySpark local[2]", "plain Python loop"):
        if name in figures:
            ratio = middle(name, "process") / middle("first", "process")
            lines.append(f"A first refresh takes {1 / ratio:.3f} of {name} ({ratio:.1f}x faster).")
    for stage in STAGES[1:]:
        work = middle(stage, "work") / middle("first", "work")
        process = middle(stage, "process") / middle("first", "process")
        lines.append(f"{stage}: {work:.3f} of the first in work, {process:.3f} as a process.")
    return lines


def section(arguments: argparse.Namespace, work: Path) -> Section:
    """Measure, and say it."""
    script = projects.peer(work)
    rows = Path(script.make(arguments.rows))
    count, wrong = equal_to_plain(script, rows, work / "equal")
    shutil.rmtree(work / "equal")
    figures = rounds(script, rows, arguments, work)
    shown = [table(figures, f"{arguments.rows:,} rows", "first")]
    ask = [arguments.spark, "-c", "from pyspark import __version__ as v; print(v, end='')"]
    spark = {"pyspark": subprocess.check_output(ask, text=True)} if arguments.spark else {}
    notes = [
        f"{count:,} documents; {wrong} of them or of the plain loop's are not the other's.",
        *ratios(figures),
        "Process: from start to end of `ragwright records refresh --no-index`; work: the refresh "
        "alone; with index: the same command with the keyword index (no embedding model).",
        "Memory: the most that the process and its children held at once (proportional share).",
    ]
    return Section(
        title=f"Refresh of {arguments.rows:,} records",
        tables=shown,
        notes=notes,
        command="python -m benchmarks.records --spark PYTHON --publish",
        page="records",
        conditions=versions("daft", "pyarrow") | spark,
    )


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", default="", help="a Python that has pyspark")
    parser.add_argument("--work", type=Path, default=None, help="folder that is kept")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = arguments.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        report = section(arguments, work)
    print("\n".join(section_lines(report)))
    if arguments.publish:
        publish("records", report)


if __name__ == "__main__":
    main()
