"""The cases of model servers, clients and files that once failed, run where they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "servers"


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("word", ["thoughts", "roles", "rerank", "replies", "clients", "files"])
def test_the_cases_of_servers_hold(word: str) -> None:
    if not CASES.is_dir():
        pytest.skip("the cases are not here")
    line = [sys.executable, str(CASES / "checks.py"), word]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
