"""`ragwright promote` from the command line: exit codes, history, way back, --served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright as called

PARTS = ("brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp", "horn", "door")
RULE = ("--gate", "HitRate@1>=0.5")
NEAR = ("--gate", "HitRate@1>=baseline-0.5")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    rows = []
    for part in PARTS:
        (docs / f"{part}.md").write_text(f"# The {part}\n\nThe {part} is changed yearly.\n")
        row = {"user_input": f"When is the {part} changed?", "reference_ids": [f"docs/{part}.md"]}
        rows.append(row)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\nretrieve: {top_k: 3}\n")
    called(tmp_path, "ingest")
    return tmp_path


def measured(folder: Path, *words: str) -> str:
    asked = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--retrieval-only")
    return str(told(folder, "eval", *asked, *words)["run"])


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(called(folder, *words, "--json", code=code).stdout)


@pytest.mark.slow
def test_what_passes_is_served_and_what_does_not_is_not(project: Path) -> None:
    called(project, "retrieve", "brake", "--served", code=1)
    measured(project, "--name", "first")
    failed = called(project, "promote", "first", "--gate", "HitRate@1<=0.5", code=1)
    assert "would pass when HitRate@1 gets worse" in failed.stderr
    thin = called(project, "promote", "first", *RULE, "--least", "99", code=101)
    assert "not promoted; served: nothing" in thin.stdout
    assert "now served: number 1" in called(project, "promote", "first", *RULE).stdout

    measured(project, "--set", "retrieve.max_query_chars=4", "--name", "worse")
    found = told(project, "promote", "worse", code=100)
    assert (found["outcome"], found["promoted"]) == ("failed", False)
    assert found["served"]["number"] == 1

    measured(project, "--set", "retrieve.top_k=2", "--name", "equal")
    assert told(project, "promote", "equal", *NEAR, "--dry-run")["promoted"] is False
    told(project, "promote", "equal", code=100)  # equal rows prove no gain
    found = told(project, "promote", "equal", *NEAR, "--reason", "shorter")
    assert (found["promoted"], found["served"]["number"]) == (True, 2)
    assert found["served"]["gate"]["checks"][0]["rule"] == NEAR[1]

    words = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--retrieval-only")
    called(project, "eval", *words, "-o", "scores.jsonl")
    found = told(project, "promote", "first", *NEAR, "--baseline", "scores.jsonl", "--dry-run")
    assert (found["outcome"], found["baseline"]) == ("passed", "scores.jsonl")
    served = told(project, "retrieve", "brake changed", "--served")["hits"]
    present = told(project, "retrieve", "brake changed")["hits"]
    assert (len(served), len(present)) == (2, 3)
    shown = called(project, "promote", "--show").stdout
    assert "# number 2" in shown
    assert "top_k: 2" in shown
    assert told(project, "promote", "--show")["settings"]["retrieve"]["top_k"] == 2

    called(project, "promote", "--back", code=1)
    called(project, "promote", "--back", "--reason", "too short")
    assert len(told(project, "retrieve", "brake changed", "--served")["hits"]) == 3
    changes = told(project, "promote", "--history")["changes"]
    assert [(c["action"], c["number"], c["reason"]) for c in changes] == [
        ("promote", 1, ""),
        ("promote", 2, "shorter"),
        ("back", 1, "too short"),
    ]
    assert all(change["at"] and change["by"] and change["run"] for change in changes)
    assert "too short" in called(project, "promote", "--history").stdout


@pytest.mark.slow
def test_a_trial_of_a_sweep_is_served_as_it_was_measured(project: Path) -> None:
    (project / "study.yaml").write_text(
        "study: {testset: rows.jsonl, measures: HitRate@1, search: grid}\n"
        "retrieve: {top_k: [4, 6]}\n"
    )
    called(project, "sweep", "study.yaml")
    called(project, "promote", "T002", *RULE, "--least", "5")
    served = told(project, "promote", "--show")
    assert served["settings"]["retrieve"]["top_k"] == 6
    assert len(told(project, "retrieve", "changed yearly", "--served")["hits"]) == 6


def test_what_cannot_be_is_told(project: Path) -> None:
    assert "no configuration has been served yet" in called(project, "promote", "--history").stdout
    for words, message in (
        ((), "give a run"),
        (("first", "--show"), "give a run"),
        (("--show",), "no configuration is served yet"),
        (("--back", "--reason", "x"), "no earlier configuration to return to"),
        (("nobody", *RULE), "unknown run"),
    ):
        done = called(project, "promote", *words, code=1)
        assert message in done.stderr
    measured(project, "--name", "first")
    (project / "personas").mkdir()
    assert "no rules to check the run with" in called(project, "promote", "first", code=1).stderr
