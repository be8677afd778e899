"""Delta tables beside the tables before them: five refreshes by two versions of ragwright.

    python -m benchmarks.delta --before FOLDER [--rows 80000] [--rounds 3] [--publish]

FOLDER is the ``src`` of a checkout at 335f0d3a, whose tables were Parquet files with lists of dead
rows. Rows, patterns and tags are those of ``benchmarks.records``. Each figure is of one process
from start to end, without the index; the two take turns, and must report the same counts of rows.
Where other programs use the machine too, processor seconds tell more than wall seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import records_project as projects
from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines, versions
from benchmarks.records import WORK, Figures, note, run

STAGES = (
    "first",
    "unchanged",
    "1 % of rows changed",
    "last 1 % of rows changed",
    "1 % more rows",
    "one tag's pattern changed",
)
COUNTED = ("bronze", "silver", "gold", "removed", "left_out")
_SETTLED = 2.5


def change_last(rows: Path) -> None:
    """The last hundredth of the rows gets a longer text."""
    lines = rows.read_text("utf-8").splitlines()
    for at in range(len(lines) - len(lines) // 100, len(lines)):
        row = json.loads(lines[at])
        row["text"] += " changed at the end"
        lines[at] = json.dumps(row)
    rows.write_text("\n".join(lines) + "\n", "utf-8")


def add_rows(rows: Path) -> None:
    """A hundredth of the rows comes again, with another key and a longer text."""
    lines = rows.read_text("utf-8").splitlines()
    for line in lines[::100]:
        row = json.loads(line)
        row["id"], row["text"] = f"new-{row['id']}", f"{row['text']} in a new row"
        lines.append(json.dumps(row))
    rows.write_text("\n".join(lines) + "\n", "utf-8")


def prepare(stage: str, raw: Path, rows: Path, folders: Mapping[str, Path], seed: int) -> None:
    """Make the change that a stage measures."""
    if stage == STAGES[2]:
        projects.change_rows(raw, rows, seed)
    if stage == STAGES[3]:
        change_last(rows)
    if stage == STAGES[4]:
        add_rows(rows)
    if stage == STAGES[5]:
        for folder in folders.values():
            projects.change_tag(folder)
    time.sleep(_SETTLED if stage == STAGES[0] else 0)


def measured(sources: Mapping[str, Path], raw: Path, script: Any, work: Path, times: int) -> Any:
    """Version -> stage -> seconds, bytes held and bytes on the disk."""
    figures: dict[str, Figures] = {name: {} for name in sources}
    for number in range(times):
        place = work / f"round-{number}"
        place.mkdir(parents=True)
        rows = place / "rows.jsonl"
        shutil.copyfile(raw, rows)
        folders = {name: projects.declare(place / name, script, rows) for name in sources}
        turns = list(sources) if number % 2 else list(sources)[::-1]
        for stage in STAGES:
            prepare(stage, raw, rows, folders, number)
            counts = set()
            for name in turns:
                before, busy = _bytes(folders[name]), _processor()
                command = [sys.executable, "-c", WORK, str(folders[name]), "local"]
                taken = run(command, Path.cwd(), PYTHONPATH=str(sources[name]))
                note(figures[name], stage, "process", taken.seconds)
                note(figures[name], stage, "processor", _processor() - busy)
                note(figures[name], stage, "memory", taken.peak)
                note(figures[name], stage, "bytes", _bytes(folders[name]) - before)
                report = json.loads(taken.printed)
                counts.add(json.dumps({key: report[key] for key in COUNTED}, sort_keys=True))
                print(name, stage, figures[name][stage], file=sys.stderr, flush=True)
            if len(counts) != 1:
                raise SystemExit(f"the versions differ at {stage}: {counts}")
        shutil.rmtree(place)
    return figures


def _processor() -> float:
    """Processor seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _bytes(folder: Path) -> int:
    tables = folder / ".ragwright" / "data" / "records"
    return sum(path.stat().st_size for path in tables.rglob("*") if path.is_file())


def section(arguments: argparse.Namespace, work: Path) -> Section:
    """Measure, and tell the ratios."""
    script = projects.peer(work)
    raw = Path(script.make(arguments.rows))
    sources = {"before": arguments.before.absolute(), "delta": ROOT / "src"}
    figures = measured(sources, raw, script, work, arguments.rounds)
    rows: list[Mapping[str, Cell]] = []
    for stage in STAGES:
        for name in sources:
            row: dict[str, Cell] = {"refresh": stage, "tables": name}
            for what in ("process", "processor"):
                seconds, base = (
                    statistics.median(figures[of][stage][what]) for of in (name, "before")
                )
                row[f"{what} s"] = f"{seconds:.2f}"
                row[f"{what}, of before"] = f"{seconds / base:.2f}"
            for what in ("bytes", "memory"):
                row[f"MB {what}"] = f"{statistics.median(figures[name][stage][what]) / 1e6:.1f}"
            rows.append(row)
    return Section(
        title="Delta tables beside the tables before them",
        tables=[Table(rows, f"{arguments.rows:,} rows, medians of {arguments.rounds} runs")],
        notes=["Both report the same counts of rows at every refresh."],
        command="python -m benchmarks.delta --before ../before/src --publish",
        page="records",
        conditions=versions("daft", "pyarrow", "deltalake"),
        data={"rows": arguments.rows, "figures": figures},
    )


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="src of a checkout at 335f0d3a")
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        figures = section(arguments, Path(work))
    print("\n".join(section_lines(figures)))
    if arguments.publish:
        publish("records-delta", figures)


if __name__ == "__main__":
    main()
