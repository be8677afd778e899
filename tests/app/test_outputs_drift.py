"""`ragwright outputs measure`, `outputs drift`, and rejected answers exported for review."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from command_line import ragwright
from served_answers import BAD, GOOD, Days, live, serve_answers
from small_project import MakeProject

from ragwright import Workbench

LINES = "serve: {measure: {share: 1, window: 14}}\n"


@pytest.mark.slow
def test_the_command_shows_it_and_ends_as_a_gate_does(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(LINES)
    assert "has no score yet" in ragwright(folder, "outputs", "drift", code=101).stdout
    rng, clock = random.Random(3), Days(40)
    with Workbench.open(folder) as bench:
        live(bench, clock, 20, 0.05, rng)
        quiet = json.loads(ragwright(folder, "outputs", "drift", "--json", code=None).stdout)
        assert quiet["measures"][0]["verdict"] == "unproven"
        live(bench, clock, 20, 0.7, rng, model="http://h/v1#cheap")
    shown = ragwright(folder, "outputs", "drift", code=100).stdout
    assert "fell from" in shown.splitlines()[0]
    assert "small" in shown
    found = json.loads(ragwright(folder, "outputs", "drift", "--json", code=100).stdout)
    assert found["state"] == "worse"
    assert found["measures"][0]["near"][0]["part"] == "model"
    assert found["measures"][0]["text"].startswith("KPrecision(content+bigrams) fell")
    none = ragwright(folder, "outputs", "drift", "--scope", "acme", code=101).stdout
    assert "has no score yet" in none


def test_measuring_is_a_command_for_a_nightly_job(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(LINES)
    with Workbench.open(folder) as bench:
        serve_answers(bench.outputs, [GOOD, BAD])
    done = json.loads(ragwright(folder, "outputs", "measure", "--json").stdout)
    assert (done["drawn"], done["scored"], done["waiting"]) == (2, 2, 0)
    assert "0 answers drawn" in ragwright(folder, "outputs", "measure").stdout


def test_rejected_answers_are_exported_as_rows_to_review(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(LINES)
    with Workbench.open(folder) as bench:
        wrong, _ = serve_answers(bench.outputs, [BAD, GOOD], persona="engineer")
        bench.outputs.respond(
            wrong, by="ann", verdict="rejected", note="It must say every two years."
        )
    words = ("outputs", "export", "--verdict", "rejected", "-o", "complaints.jsonl")
    ragwright(folder, *words)
    [row] = map(json.loads, (folder / "complaints.jsonl").read_text().splitlines())
    assert row["user_input"] == "How often? 0"
    assert row["response"] == BAD
    assert row["persona_name"] == "engineer"
    assert "every two years" in json.dumps(row)
    assert "feedback_note" in json.dumps(row)
    done = ragwright(folder, "review", "complaints.jsonl", typed="e\n\nEvery two years.\nq\n")
    assert "accepted" in done.stdout
    [row] = map(json.loads, (folder / "complaints.jsonl").read_text().splitlines())
    assert row["reference"] == "Every two years."
