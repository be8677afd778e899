"""`ragwright compare` of two runs without gold: changed answers, citations and abstentions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright import Workbench
from ragwright.drafting import NewBatch, NewOutput

PARTS = ("brake", "coolant", "belt")
HIDDEN = "retrieve.filters=[{field: source, values: [docs/brake.md], exclude: true}]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose served questions were exported as rows."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for part in PARTS:
        text = f"# The {part}\n\nThe {part} is changed yearly. Ask for {part}-77.\n"
        (docs / f"{part}.md").write_text(text, "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\nretrieve: {top_k: 1}\n", "utf-8")
    ragwright(tmp_path, "ingest")
    with Workbench.open(tmp_path) as bench:
        for part in PARTS:
            served = NewOutput("text", "It was changed weekly.", "m")
            asked = {"question": f"When is the {part} changed?", "persona": ""}
            bench.outputs.add(NewBatch("answer", asked, (served,)))
    ragwright(tmp_path, "outputs", "export", "-o", "asked.jsonl")
    return tmp_path


def compared(folder: Path, *words: str) -> Any:
    ragwright(folder, "eval", "--testset", "asked.jsonl")
    ragwright(folder, "eval", "--testset", "asked.jsonl", *words)
    done = ragwright(folder, "compare", "latest~1", "latest", "--json")
    return json.loads(done.stdout)["answers"]


def test_questions_that_were_served_show_what_a_setting_changes(project: Path) -> None:
    answers = compared(project, "--set", HIDDEN)
    assert answers["compared"] == 3
    [change] = answers["changed"]
    assert change["user_input"] == "When is the brake changed?"
    assert {"now abstains", "lost citations"} <= set(change["kinds"])
    assert "yearly" in change["a"]
    assert [span["document_id"] for span in change["lost"]] == ["docs/brake.md"]
    assert change["gained"] == []
    text = ragwright(project, "compare", "latest", "latest~1").stdout
    assert "answers that differ: 1 of 3" in text
    assert "now answers" in text
    assert "new citations" in text


def test_runs_with_the_same_answers_say_so(project: Path) -> None:
    assert compared(project, "--set", "answer.threshold=0.6") == {"compared": 3, "changed": []}
    assert "answers that differ: 0 of 3" in ragwright(project, "compare", "latest~1").stdout
