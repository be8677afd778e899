"""Tests that read the data sets are skipped by one rule where there are none."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-n0", "-rs"]


@pytest.mark.slow
def test_without_data_every_test_that_needs_it_is_skipped(tmp_path: Path) -> None:
    marked = [
        p for p in (ROOT / "tests").rglob("test_*.py") if "needs_data" in p.read_text("utf-8")
    ]
    names = [str(path) for path in marked if path != Path(__file__)]
    done = subprocess.run(
        [*PYTEST, "-m", "needs_data", *names],
        cwd=ROOT,
        env=os.environ | {"RAGWRIGHT_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    counts = {
        state: int(n) for n, state in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])
    }
    assert counts["skipped"] > 50
    assert not {"passed", "failed", "error", "errors"} & set(counts), done.stdout[-3000:]
    assert f"no data sets in {tmp_path}" in done.stdout


def test_one_place_says_where_the_data_lies() -> None:
    place = re.compile(r"""shared["']?\s*/\s*["']?data""")
    files = [p for folder in ("tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    naming = {p.relative_to(ROOT).as_posix() for p in files if place.search(p.read_text("utf-8"))}
    assert naming - {"tests/test_data_rule.py"} == {"benchmarks/data_sets.py"}


def test_a_test_that_reads_the_data_is_marked() -> None:
    reads = re.compile(r"^from benchmarks\.data_sets import .*\bDATA\b", re.MULTILINE)
    files = [p for p in (ROOT / "tests").rglob("test_*.py") if reads.search(p.read_text("utf-8"))]
    assert files
    assert not [p.name for p in files if "needs_data" not in p.read_text("utf-8")]


@pytest.mark.slow
def test_an_ignored_sigint_of_the_shell_fails_no_test() -> None:
    """A shell that starts the tests in the background hands down an ignored SIGINT."""
    names = ["tests/app/test_main.py", "tests/drafting/test_drafting.py"]
    done = subprocess.run(
        [*PYTEST, "-k", "ctrl_c or interrupt", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
