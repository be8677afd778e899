"""Comparisons, leaderboards and reports name what differs and what fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

pytestmark = pytest.mark.slow

KINDS = ("price", "colour", "weight", "maker")
TEXT = "".join(f"## Part {n}\n\nThe part {n} is changed every {n + 2} years.\n\n" for n in range(8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = MakeProject(tmp_path)("", **{"parts.md": TEXT})
    rows = [
        {
            "id": f"q{n}",
            "user_input": f"When is part {n} changed?",
            "reference": f"every {n + 2} years",
            "reference_contexts": [f"The part {n} is changed every {n + 2} years."],
        }
        for n in range(8)
    ]
    (made / "main.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(made, "ingest", "-q")
    return made


def test_a_comparison_names_the_settings_of_the_index_and_not_its_hash(folder: Path) -> None:
    ragwright(folder, "eval", "--testset", "main.jsonl", "-q", "--name", "before")
    smaller = ("--set", "chunk.size=40", "--set", "chunk.overlap=0")
    ragwright(folder, "ingest", "-q", *smaller)
    ragwright(folder, "eval", "--testset", "main.jsonl", "-q", "--name", "after", *smaller)
    shown = ragwright(folder, "compare", "before", "after").stdout
    lines = [line.strip() for line in shown.splitlines()]
    assert "chunk.size: 400 -> 40" in lines
    assert "chunk.overlap: 50 -> 0" in lines
    assert not any(line.startswith(("pair", "snapshot")) for line in lines)
    settings = json.loads(ragwright(folder, "compare", "before", "after", "--json").stdout)
    assert {"key": "chunk.size", "a": 400, "b": 40} in settings["settings"]
    report = json.loads(ragwright(folder, "report", "before", "after", "--json").stdout)
    assert "chunk.size: 400 -> 40" in report["facts"]["settings that differ"]
    (folder / "docs" / "more.md").write_text("Another document about valves.")
    ragwright(folder, "ingest", "-q")
    ragwright(folder, "eval", "--testset", "main.jsonl", "-q", "--name", "later")
    shown = ragwright(folder, "compare", "before", "later").stdout
    assert "  documents in the index: changed" in shown.splitlines()


def test_the_current_trial_shows_its_values(folder: Path) -> None:
    study = (
        "study: {testset: main.jsonl, measures: TokenF1}\n"
        "chunk: {size: [60, 80]}\nretrieve: {top_k: [1, 2]}\n"
    )
    (folder / "study.yaml").write_text(study)
    shown = ragwright(folder, "sweep", "study.yaml").stdout
    current = next(line for line in shown.splitlines() if "T000" in line)
    assert "current" in current
    assert " 400 " in current
    board = json.loads(ragwright(folder, "report", "latest", "--json").stdout)
    own = next(entry for entry in board["entries"] if entry["id"] == "T000")
    assert own["current"] == {"chunk.size": 400, "retrieve.top_k": 5}
    ragwright(folder, "report", "latest", "-o", "board.csv")
    table = (folder / "board.csv").read_text("utf-8")
    assert ",T000,done,400,5,TokenF1" in table


def test_a_report_and_a_gate_name_the_slice_and_the_rows_that_fail(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    rows = [
        {
            "id": f"{kind}-{n}",
            "user_input": f"What is the {kind} of {n}?",
            "response": "unknown" if kind == "price" else f"answer {n}",
            "reference": f"answer {n}",
            "kind": kind,
        }
        for kind in KINDS
        for n in range(8)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(folder, "score", "rows.jsonl", "--measures", "ExactMatch,TokenF1", "-q")
    report = json.loads(ragwright(folder, "report", "latest", "--json").stdout)
    [exact, words] = report["weak"]["slices"]
    assert (exact["by"], exact["value"], exact["mean"], exact["n"]) == ("kind", "price", 0, 8)
    assert exact["rest"] == words["rest"] == 1
    assert exact["p"] < 0.001
    assert {row["id"] for row in report["weak"]["rows"]} == {f"price-{n}" for n in range(5)}
    assert any("kind = price" in sentence for sentence in report["verdict"]["said"])
    assert not any(name.startswith("histogram") for name in report["charts"])  # 0 or 1
    ragwright(folder, "report", "latest", "-o", "report.html")
    assert "Where it fails" in (folder / "report.html").read_text("utf-8")
    gate = ("gate", "latest", "--rule", "ExactMatch>=0.9")
    failed = json.loads(ragwright(folder, *gate, "--json", code=100).stdout)
    assert failed["failing"]["slices"][0]["value"] == "price"
    shown = ragwright(folder, *gate, code=100).stdout
    assert "kind = price" in shown
    assert "What is the price of 0?" in shown
    passed = ragwright(folder, "gate", "latest", "--rule", "ExactMatch>=0.5").stdout
    assert "Weak slices" not in passed


def test_slices_that_differ_by_chance_are_not_named(tmp_path: Path) -> None:
    import random

    from ragwright.core import Row, Score
    from ragwright.experiment import RowResult, weak_slices

    named = 0
    for seed in range(60):
        draw = random.Random(seed)
        results = [
            RowResult(
                str(n),
                (),
                (Score("ExactMatch", "scored", float(draw.random() < 0.5)),),
                Row(str(n), "?", metadata={"kind": draw.choice("abcdef"), "level": n % 3}),
            )
            for n in range(60)
        ]
        named += bool(weak_slices(results, ["ExactMatch"]))
    assert named <= 4
