"""kill -9 at any moment: the tables open at the last whole version, all four alike."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from table_rows import content, files, named
from tables_child import gone_of, rows_of

from ragwright.ledger import FileLock
from ragwright.records import TABLES, RecordTables

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
KILLS = 20
SECONDS = 60


class Writers:
    """Starts writers, by way of a process that forks them."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "tables_child.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE, text=True
        )

    def start(self, folder: Path) -> int:
        """Process of a new writer in a folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def expected(version: int) -> dict[str, str]:
    held: dict[str, str] = {}
    for number in range(1, version + 1):
        held |= rows_of(number)
        for key in gone_of(number):
            held.pop(key, None)
    return held


def whole(folder: Path) -> int:
    """Check every version there is; the newest one's number."""
    tables = RecordTables(folder, keep=3)
    for manifest in tables.history():
        assert manifest.lineage == {"version": manifest.version}
        held = expected(manifest.version)
        for table in TABLES:
            found = content(tables, table, version=manifest.version)
            assert len(found) == len(held) == tables.rows(table, manifest.version)
            assert dict(found) == held, (table, manifest.version)
    return tables.version


def test_killed_at_any_moment_the_last_whole_version_stands(tmp_path: Path) -> None:
    chance = random.Random(20261121)
    folder = tmp_path / "tables"
    reached = leftovers = 0
    writers = Writers()
    try:
        for number in range(5 * KILLS):
            if number >= KILLS and leftovers:
                break
            writer = writers.start(folder)
            while RecordTables(folder).version == reached:  # the first one may take its time
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.1))
            os.kill(writer, signal.SIGKILL)
            # it is free when the writer is gone
            with FileLock(folder / "lock", "test", wait=SECONDS):
                version = whole(folder)
                leftovers += len(strangers(folder))
            assert version > reached
            reached = version
    finally:
        writers.close()
    assert leftovers  # some kill did hit a writing half-way
    with RecordTables(folder, keep=3).writing("next", 0):
        pass
    assert not strangers(folder)
    whole(folder)


def strangers(folder: Path) -> set[str]:
    """Files that no version names."""
    return files(folder) - named(RecordTables(folder, keep=3))
