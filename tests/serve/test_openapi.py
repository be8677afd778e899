"""Random requests made from the description of the API, by schemathesis with all of its checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from served import served
from small_project import MakeProject

from ragwright import Workbench

pytestmark = pytest.mark.slow


def test_random_requests_find_nothing(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {name: book, keep_answers: false}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as running:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run"),
                f"{running.address}/openapi.json",
                # What a name or a filter stands for is checked against the project, so that
                # not every request of the right shape is accepted.
                *("--exclude-checks", "positive_data_acceptance"),
                *("--checks", "all", "--max-examples", "10", "--seed", "1"),
                *("--generation-deterministic", "--continue-on-failure", "--no-color"),
                *("--request-timeout", "20", "--warnings", "off"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-8000:]
