"""Nuggets from the command line: drafted, reviewed, taken from a file, scored, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.testing import ScriptedServer, ServerRequest

ROWS = [
    {
        "id": "a",
        "user_input": "When was the mill built?",
        "reference": "In 1790 by Anna Roth.",
        "reference_contexts": ["The mill dates from 1790. Anna Roth had it built."],
        "response": "In 1790.",
    },
    {"id": "b", "user_input": "Who cares?", "response": "Nobody."},
    {"id": "c", "user_input": "How high is it?", "reference": "61 metres.", "response": "61 m."},
]
DRAFT = {
    "nuggets": [
        {"text": "The mill was built in 1790", "importance": "vital"},
        {"text": "Anna Roth had it built", "importance": "okay"},
    ]
}


def replies(request: ServerRequest) -> str:
    text = json.dumps(request.body["messages"])
    if "gold answer" not in text.rpartition("MARK is")[2]:
        entries = [
            {"nugget": n, "reasoning": f"reason {n}", "assignment": kind}
            for n, kind in enumerate(("support", "not_support"), 1)
        ]
        return json.dumps({"assignments": entries})
    return "I cannot." if "How high" in text else json.dumps(DRAFT)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The mill dates from 1790.\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def connected(folder: Path, server: ScriptedServer) -> None:
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\nmodels: {{scripted: {{base: '{server.url}'}}}}\n"
        "answer: {model: 'scripted:m'}\njudge: {model: 'scripted:m'}\n"
    )


def test_nuggets_are_drafted_reviewed_scored_and_exported(project: Path) -> None:
    with ScriptedServer(replies) as server:
        connected(project, server)
        synth = ("synth", "--nuggets", "rows.jsonl", "-o", "rows.jsonl", "--json")
        drafted = json.loads(ragwright(project, *synth).stdout)
        expected = {"rows": 3, "drafted": 1, "kept": 0, "vital": 1, "okay": 1}
        assert {name: drafted[name] for name in expected} == expected
        assert drafted["failed"] == {
            "no gold passage and no gold answer": 1,
            "no usable reply after a retry": 1,
        }
        rows = [json.loads(line) for line in (project / "rows.jsonl").read_text().splitlines()]
        assert rows[0]["nuggets"] == DRAFT["nuggets"]
        assert rows[0]["metadata"]["nuggets_drafted"] == "scripted:m"
        typed = "e\n\n\no\nw\nvital: It has a wheel\nnonsense\n\nq\n"
        done = ragwright(project, "review", "rows.jsonl", "--by", "ann", typed=typed)
        assert "nugget vital: The mill was built in 1790" in done.stderr
        assert "'nonsense' is not a nugget" in done.stderr
        row = json.loads((project / "rows.jsonl").read_text().splitlines()[0])
        assert row["nuggets"] == [
            {"text": "The mill was built in 1790", "importance": "okay"},
            {"text": "It has a wheel", "importance": "vital"},
        ]
        assert "nuggets_drafted" not in row["metadata"]
        measures = "Nuggets,Nuggets(vital),Nuggets(words)"
        score = ("score", "rows.jsonl", "--measures", measures)
        scored = json.loads(ragwright(project, *score, "--json").stdout)["measures"]
        assert scored["Nuggets"]["mean"] == 0.5
        assert scored["Nuggets(vital)"]["mean"] == 0
        assert scored["Nuggets(words)"]["n"] == 1
        ragwright(project, *score, "-o", "out.nuggets.jsonl", "-q")
    (line,) = (project / "out.nuggets.jsonl").read_text().splitlines()
    assert [nugget["assignment"] for nugget in json.loads(line)["nuggets"]] == [
        "support",
        "not_support",
    ]
    again = ("score", "out.nuggets.jsonl", "--measures", "Nuggets(assigned+strict)", "--json")
    assert json.loads(ragwright(project, *again).stdout)["measures"][
        "Nuggets(assigned+strict)"
    ]["mean"] == 0.5  # fmt: skip


def test_nuggets_of_a_file_need_no_model(project: Path) -> None:
    nuggets = {"query": "How high is it?", "qid": "x", "nuggets": [{"text": "61 metres"}]}
    (project / "nuggets.jsonl").write_text(json.dumps(nuggets) + "\n")
    synth = ("synth", "--nuggets", "rows.jsonl", "--from", "nuggets.jsonl")
    done = ragwright(project, *synth, "-o", "with.jsonl")
    assert "1 of 3 rows got nuggets" in done.stdout
    assert "not in the file of nuggets" in done.stdout
    exported = ragwright(project, "synth", "--nuggets", "with.jsonl", "--from", "nuggets.jsonl",
                         "-o", "x.nuggets.jsonl", code=0)  # fmt: skip
    assert "1 had some" in exported.stdout
    (line,) = (project / "x.nuggets.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "query": "How high is it?",
        "qid": "c",
        "nuggets": [{"text": "61 metres", "importance": "vital"}],
    }
    (project / "nuggets.jsonl").write_text('{"query": "Else?", "qid": "y", "nuggets": ["z"]}\n')
    refused = ragwright(project, *synth, "-o", "no.jsonl", code=1)
    assert "nuggets for none of the rows" in refused.stderr
    (project / "ragwright.yaml").write_text("sources: [docs]\n")
    no_model = ragwright(project, "synth", "--nuggets", "rows.jsonl", "-o", "m.jsonl", code=1)
    assert "no chat model is set to draft nuggets" in no_model.stderr
