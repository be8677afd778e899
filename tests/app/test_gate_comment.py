"""`gate --markdown`, and the workflow of `action` that posts it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
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


def test_the_workflow_gates_and_comments(tmp_path: Path) -> None:
    ragwright(tmp_path, "init", "-q")
    project = tmp_path / "ragwright.yaml"
    project.write_text(
        project.read_text() + "\nmodels: {default: {key_env: TEAM_KEY}}\n"
        if "\nmodels:" not in project.read_text()
        else project.read_text()
    )
    call = ("action", "--testset", "testsets/my rows.jsonl", "--rule", "TokenF1>=0.7")
    ragwright(tmp_path, *call, "--max-cost", "2", "-o", ".github/workflows/ragwright.yml")
    file = tmp_path / ".github/workflows/ragwright.yml"
    steps = yaml.safe_load(file.read_text())["jobs"]["gate"]["steps"]
    lines = " ".join(step.get("run", "") for step in steps)
    assert "--testset 'testsets/my rows.jsonl' --max-cost 2" in lines
    assert "--rule 'TokenF1>=0.7'" in lines
    assert "gh pr comment" in lines
    assert "--edit-last" not in lines, "it would replace comments of other workflows"
    assert 'startswith("<!-- ragwright gate -->")' in lines
    if find_spec("check_jsonschema") is not None:
        check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
        subprocess.run([*check, "vendor.github-workflows", str(file)], check=True)


def test_a_key_or_a_folder_that_no_workflow_can_hold_is_refused(tmp_path: Path) -> None:
    ragwright(tmp_path, "init", "-q")
    call = ("action", "--testset", "t.jsonl", "--rule", "TokenF1>=0.7")
    done = ragwright(tmp_path, *call, "-C", str(tmp_path), code=1)
    assert "within the repository" in done.stderr
    for name in ("a\u2028      - run: id", "a\x85b", "a\nb", "a\x1bb"):  # YAML breaks lines there
        broken = ragwright(tmp_path, "action", "--testset", name, *call[3:], code=1)
        assert "cannot be written into a workflow" in broken.stderr
    project = tmp_path / "ragwright.yaml"
    project.write_text("models: {m: {key_env: 'A: b'}}\n")
    assert "cannot be the name of a secret" in ragwright(tmp_path, *call, code=1).stderr


@pytest.mark.parametrize(
    ("rule", "reason"),
    [("TokenF1>=${{ secrets.KEY }}", "TokenF1"), ("TokenF1", "TokenF1")],
)
def test_a_rule_that_cannot_be_one_is_refused(tmp_path: Path, rule: str, reason: str) -> None:
    ragwright(tmp_path, "init", "-q")
    done = ragwright(tmp_path, "action", "--testset", "t.jsonl", "--rule", rule, code=1)
    assert reason in done.stderr
