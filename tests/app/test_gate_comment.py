"""`gate --markdown`, and the example workflow that posts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import ragwright

LINKS = "https://evil.example www.evil.example GH-12 #12 $x$"
ROWS = [
    {"id": f"q{number}", "question": f"Who is @alice | <b>{number}</b>?\n{LINKS}",
     "answer": "Alice", "reference": "Bob" if number % 3 else "Alice"}
    for number in range(21)
]  # fmt: skip


@pytest.fixture
def scores(tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    call = ("score", "rows.jsonl", "--measures", "TokenF1", "-q", "-o", "scores.jsonl")
    ragwright(tmp_path, *call)
    return "scores.jsonl"


def test_the_comment_has_rules_failing_rows_and_no_text_that_formats(
    tmp_path: Path, scores: str
) -> None:
    call = ("gate", scores, "--rule", "TokenF1>=0.7", "--markdown")
    done = ragwright(tmp_path, *call, code=100)
    assert done.stdout.startswith(
        "<!-- ragwright gate -->\n\n### ragwright gate: failed\n\n| rule | outcome | because |"
    )
    assert "<details><summary>" in done.stdout
    cells = [line for line in done.stdout.splitlines() if "alice" in line]
    assert cells
    for line in cells:
        assert "@alice" not in line
        assert "<b>" not in line
        assert "://" not in line
        assert "www." not in line
        assert "GH-1" not in line
        assert "#1" not in line
        assert "$x$" not in line
        assert line.replace("\\|", "").count("|") == 5
    passed = ragwright(tmp_path, "gate", scores, "--rule", "TokenF1>=0.1", "--markdown")
    assert "details" not in passed.stdout


def test_the_steps_of_the_example_workflow_gate_a_project(tmp_path: Path) -> None:
    """Its own lines run as they stand, and write the comment that its last step posts."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# Brakes\n\nBrake fluid is changed every two years.\n")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    (tmp_path / "testsets").mkdir()
    rows = [
        {"id": f"q{n}", "question": f"brake fluid {n}", "reference_ids": {"docs/a.md": 1}}
        for n in range(10)
    ]
    (tmp_path / "testsets/release.jsonl").write_text("\n".join(map(json.dumps, rows)))
    file = Path(__file__).resolve().parents[2] / "examples/github/gate.yml"
    steps = yaml.safe_load(file.read_text("utf-8"))["jobs"]["gate"]["steps"]
    lines = {step["name"]: step["run"] for step in steps if "run" in step}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
    for name in ("Read the documents", "Ask the test set", "Gate"):
        subprocess.run(
            ["bash", "-euc", lines[name]], cwd=tmp_path, env=environment, check=True, timeout=120
        )
    comment = (tmp_path / "ragwright-gate.md").read_text("utf-8")
    assert comment.startswith("<!-- ragwright gate -->\n\n### ragwright gate: passed")
    assert summary.read_text("utf-8") == comment
    assert "gh pr comment" in lines["Comment"]
    assert 'startswith("<!-- ragwright gate -->")' in lines["Comment"]
