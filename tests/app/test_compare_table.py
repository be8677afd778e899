"""`compare --table tutorial`: four rows on the same questions."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.testing import ScriptedServer, ServerRequest

DOCUMENTS = Path(__file__).parents[2] / "examples/persona_qa/documents"
TABLE = ("compare", "--table", "tutorial")
SETTINGS = """
sources: [docs]
embed: {model: "own:mirrored"}
models:
  "own:mirrored": {backend: "scripted_embedders:Mirrored"}
  "own:straight": {backend: "scripted_embedders:Straight"}
retrieve: {search: dense}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "testsets").mkdir()
    (tmp_path / "ragwright.yaml").write_text(SETTINGS)
    rows = []
    for number in range(40):
        (tmp_path / f"docs/{number}.txt").write_text(f"n{number}")
        row: dict[str, Any] = {"id": f"r{number}", "user_input": f"q{number}"}
        row["metadata"] = {"split": "confirm" if number % 2 else "tune"}
        rows.append({**row, "reference_ids": [f"docs/{number}.txt"]})
    (tmp_path / "testsets/main.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(tmp_path, "ingest")
    found = json.loads(ragwright(tmp_path, "eval", *MAIN, "--retrieval-only", "--json").stdout)
    assert found["measures"]["MRR@5"]["mean"] < 0.5
    return tmp_path


MAIN = ("--testset", "testsets/main.jsonl", "--measures", "MRR@5")
USE = ("--tuned", "embed.model=own:straight")


@pytest.mark.slow
def test_four_rows_with_intervals_against_base_and_stored_runs(project: Path) -> None:
    asked = (*TABLE, "--testset", "testsets/main.jsonl", *USE)
    made = json.loads(ragwright(project, *asked, "--json").stdout)
    names = [row["name"] for row in made["rows"]]
    reranked = "rerank (20 -> 2)"
    assert names == ["base", "tuned", f"base + {reranked}", f"tuned + {reranked}"]
    base, tuned = made["rows"][:2]
    assert base["measures"]["MRR@5"]["n"] == 20
    assert base["measures"]["HitRate@5"]["coverage"] == 1
    assert tuned["measures"]["MRR@5"]["mean"] == 1
    assert tuned["against_base"]["MRR@5"]["verdict"] == "better"
    assert tuned["against_base"]["MRR@5"]["low"] > 0
    assert tuned["settings"] == ["embed.model=own:straight"]
    again = ("compare", base["runs"][0], tuned["runs"][0], "--json")
    stored = json.loads(ragwright(project, *again).stdout)["measures"]["MRR@5"]
    assert stored["difference"] == tuned["against_base"]["MRR@5"]["difference"]
    printed = ragwright(project, *asked).stdout
    assert "against base" in printed
    assert "questions: the confirm split of testsets/main.jsonl" in printed
    assert "set judge.model" in printed


def test_rows_without_anything_tuned_say_why(project: Path) -> None:
    asked = (*TABLE, "--testset", "testsets/main.jsonl")
    made = json.loads(ragwright(project, *asked, "--json").stdout)["rows"]
    assert [bool(row["skipped"]) for row in made] == [False, True, False, True]
    assert "no tuned model is named" in ragwright(project, *asked).stdout


@pytest.mark.slow
def test_questions_are_generated_once_and_a_judge_adds_columns(tmp_path: Path) -> None:
    def yes(request: ServerRequest) -> str:
        said = "\n".join(str(message["content"]) for message in request.body["messages"])
        return json.dumps({"reasoning": "Seen.", "score": int(zlib.crc32(said.encode()) % 4 > 0)})

    shutil.copytree(DOCUMENTS, tmp_path / "docs")
    with ScriptedServer(yes) as server:
        judge = f"judge: {{model: '{server.url}#judge'}}"
        (tmp_path / "ragwright.yaml").write_text(f"sources: [docs]\n{judge}\n")
        ragwright(tmp_path, "ingest")
        made = json.loads(ragwright(tmp_path, *TABLE, "--questions", "6", "--json").stdout)
        calls = len(server.requests)
        first = (tmp_path / "testsets/tutorial.jsonl").read_text()
        ragwright(tmp_path, *TABLE, "--questions", "6", "--json")
        assert len(server.requests) == calls  # nothing is asked twice
    assert (tmp_path / "testsets/tutorial.jsonl").read_text() == first
    columns = ["MRR@5", "HitRate@5", "Rubric(AnswersQuestion)", "Groundedness"]
    assert list(made["rows"][0]["measures"]) == columns
    assert len(made["rows"][0]["runs"]) == 2
    assert len(made["rows"][2]["against_base"]) >= 2


def test_wrong_names_are_refused(project: Path) -> None:
    assert "tutorial" in ragwright(project, "compare", "--table", "other", code=2).stderr
    asked = (*TABLE, "--testset", "testsets/main.jsonl", "--tuned", "models/a")
    assert "KEY=VALUE" in ragwright(project, *asked, code=1).stderr


def test_settings_are_for_a_table_and_not_for_stored_runs(project: Path) -> None:
    done = ragwright(project, "compare", "a", "b", "--set", "retrieve.top_k=1", code=2)
    assert "--table tutorial" in done.stderr


def test_questions_without_gold_are_shown_as_not_compared(project: Path) -> None:
    rows = [{"id": f"r{n}", "user_input": f"q{n}"} for n in range(4)]
    (project / "testsets/bare.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = (*TABLE, "--testset", "testsets/bare.jsonl", *USE)
    done = ragwright(project, *asked)
    assert "no score, n 0" in done.stdout
    assert "not compared" in done.stdout
