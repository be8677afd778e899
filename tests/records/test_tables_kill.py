"""kill -9 at any moment: the tables open at the last whole version, all four alike."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("daft")

from table_rows import content, files
from tables_child import gone_of, rows_of

from ragwright.records._seams import TABLES
from ragwright.records._tables import Tables

HERE = Path(__file__).parent
KILLS = 20
AT_ONCE = 4
"""Children that write side by side, a folder each: they start slowly and die quickly."""


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "tables_child.py"), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE)


def expected(version: int) -> dict[str, str]:
    held: dict[str, str] = {}
    for number in range(1, version + 1):
        held |= rows_of(number)
        for key in gone_of(number):
            held.pop(key, None)
    return held


def whole(folder: Path) -> int:
    """Check every version there is; the newest one's number."""
    tables = Tables(folder, keep=3)
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
    folders = [tmp_path / f"tables{number}" for number in range(AT_ONCE)]
    reached = dict.fromkeys(folders, 0)
    leftovers = 0
    for _ in range(KILLS // AT_ONCE):
        children = {folder: start(folder) for folder in folders}
        for child in children.values():
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        for folder, child in children.items():
            time.sleep(chance.uniform(0.02, 0.15))
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
            version = whole(folder)
            assert version >= reached[folder]
            reached[folder] = version
            leftovers += len(strangers(folder))
    assert sum(reached.values()) > KILLS  # it did get on between the kills
    assert leftovers > KILLS  # some kills did hit a writing half-way
    for folder in folders:
        with Tables(folder, keep=3).writing("next", 0):  # the lock died with its holder
            pass
        assert not strangers(folder)
        whole(folder)


def strangers(folder: Path) -> set[str]:
    """Files that no version names."""
    tables = Tables(folder, keep=3)
    named = {f"manifests/{m.version:08d}.json" for m in tables.history()}
    return files(folder) - named.union(*(m.files() for m in tables.history()))
