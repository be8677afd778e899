"""What tests need beside the packages that `make test` installs is marked, and left out there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-n0"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
NEEDS = re.findall(r"^NEEDS := (.*)$", MAKEFILE, re.MULTILINE)[0].split()
LIGHT = f"not ({' or '.join(f'needs_{need}' for need in NEEDS)})"
MACHINES = {"nginx": "needs_nginx", "postgres_server": "needs_postgres", "s3_server": "needs_s3"}
"""Modules of tests/servers that start programs of the machine, or heavy packages."""


def test_make_test_leaves_out_every_need_that_is_a_marker() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
    markers = [line.partition(":")[0] for line in options["ini_options"]["markers"]]
    assert sorted(markers) == sorted(["slow", *(f"needs_{need}" for need in NEEDS)])
    for target, words in (("test", LIGHT), ("quick", LIGHT.replace("(", "(slow or "))):
        shown = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f'-m "{words}"' in shown.stdout.splitlines()[-1]


def test_no_test_asks_what_is_installed() -> None:
    """It carries the marker of its need, and fails in `make test-heavy` when that is missing."""
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    del texts[Path(__file__).name]
    assert [name for name, text in texts.items() if "importorskip" in text] == []
    for server, marker in MACHINES.items():
        starting = [text for text in texts.values() if f"from {server} import" in text]
        assert starting
        needing = re.compile(rf"{marker}|\b{marker[6:]}: str")  # a marker, or a fixture that has it
        assert all(map(needing.search, starting)), server


@pytest.mark.slow
def test_without_heavy_packages_tests_are_collected_and_none_imports_one() -> None:
    folder = os.pathsep.join([str(ROOT / "tests" / "servers"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*PYTEST, "--collect-only", "-q", "-p", "hidden_packages", "-m", LIGHT],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert not re.findall(r"^.* imports \w+ in .*$", done.stdout, re.MULTILINE)


def test_one_place_says_where_the_data_lies() -> None:
    place = re.compile(r"""shared["']?\s*/\s*["']?data""")
    files = [p for folder in ("tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    naming = {p.relative_to(ROOT).as_posix() for p in files if place.search(p.read_text("utf-8"))}
    assert naming - {"tests/test_needs.py"} == {"benchmarks/data_sets.py"}


def test_a_test_that_reads_the_data_is_marked() -> None:
    reads = re.compile(r"^from benchmarks\.data_sets import .*\bDATA\b", re.MULTILINE)
    files = [p for p in (ROOT / "tests").rglob("test_*.py") if reads.search(p.read_text("utf-8"))]
    assert files
    assert not [p.name for p in files if "needs_data" not in p.read_text("utf-8")]
