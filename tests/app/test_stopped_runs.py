"""Runs that were stopped: `latest` and `compare` do not pass them off as results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright import Workbench


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system with a price, and three questions."""
    (tmp_path / "rag.py").write_text("def ask(question):\n    return question\n", "utf-8")
    (tmp_path / "system.yaml").write_text("call: rag:ask\nprice: 0.25\n", "utf-8")
    (tmp_path / "t.csv").write_text("question,answer\na,a\nb,b\nc,c\n", "utf-8")
    return tmp_path


WORDS = ("eval", "--system", "system.yaml", "--testset", "t.csv", "--measures", "TokenF1")


def test_compare_says_that_a_run_was_stopped(folder: Path) -> None:
    ragwright(folder, *WORDS, "--name", "whole", "-q")
    ragwright(folder, *WORDS, "--name", "cut", "--max-cost", "0.5", "-q", code=101)
    shown = ragwright(folder, "compare", "whole", "cut").stdout
    assert "of 3 rows have no result" in " ".join(shown.split())
    notes = json.loads(ragwright(folder, "compare", "whole", "cut", "--json").stdout)["notes"]
    assert sum("was stopped" in note for note in notes) == 1
    same = json.loads(ragwright(folder, "compare", "whole", "whole", "--json").stdout)["notes"]
    assert not any("was stopped" in note for note in same)


def test_latest_is_no_run_in_which_nothing_was_done(folder: Path) -> None:
    judged = ("score", "whole", "--set", "judge.model=http://127.0.0.1:9/v1#m")
    ragwright(folder, *WORDS, "--name", "whole", "-q")
    ragwright(folder, *judged, "--measures", "Faithfulness", "-q", "--name", "dead", code=None)
    found = json.loads(
        ragwright(folder, "score", "latest", "--measures", "Contains", "--json").stdout
    )
    assert found["measures"]["Contains"]["n"] == 3


def test_latest_counts_the_runs_that_are_listed(folder: Path) -> None:
    for name in ("first", "second"):
        ragwright(folder, *WORDS, "--name", name, "-q")
    with Workbench.open(folder) as bench:
        bench.project.runs.start("eval", {"testset": "t.csv", "measures": ["TokenF1"]})
    ragwright(folder, *WORDS, "--name", "third", "-q")
    listed = json.loads(ragwright(folder, "compare", "--json").stdout)["runs"]
    assert [run["name"] for run in listed] == ["third", "second", "first"]
    for back, run in enumerate(listed):
        named = ("compare", f"latest~{back}", f"latest~{back}", "--json")
        assert json.loads(ragwright(folder, *named).stdout)["a"] == run["id"]
