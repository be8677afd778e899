"""Writes version after version: run by test_tables_kill.py, which kills it, never imported."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from table_rows import upsert

from ragwright.records import TABLES, RecordTables


def rows_of(version: int) -> dict[str, str]:
    """What version ``version`` upserts into every table."""
    return {f"k{(version * 7 + step) % 60:02d}": f"{version // 3}" for step in range(25)}


def gone_of(version: int) -> list[str]:
    """Which keys it removes afterwards."""
    return [f"k{(version * 11 + step) % 60:02d}" for step in range(version % 9)]


def main() -> None:
    """Start a writer for every folder that standard input names, and say its process.

    Writers are forks of this process, which has imported everything and used nothing of it: so
    one that is killed is replaced in milliseconds.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed leave nothing behind
    for line in sys.stdin:
        writer = os.fork()
        if not writer:
            write_on(Path(line.strip()))
        print(writer, flush=True)


def write_on(folder: Path) -> None:
    """Version after version, until it is killed."""
    tables = RecordTables(folder, keep=3)
    while True:
        one_version(tables)


def one_version(tables: RecordTables) -> None:
    with tables.writing("child", 10) as writing:
        version = tables.version + 1
        rows = list(rows_of(version).items())
        for table in TABLES:
            for start in range(0, len(rows), 9):
                upsert(writing, table, dict(rows[start : start + 9]))
            writing.remove(table, gone_of(version))
        writing.commit({"version": version}, f"version {version}")


if __name__ == "__main__":
    for module in ("pyarrow.parquet", "pyarrow.dataset", "pydantic"):
        import_module(module)
    main()
