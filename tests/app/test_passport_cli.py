"""`ragwright passport` with a scripted chat judge, and the gate that reads its passport."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.experiment import list_passports
from ragwright.testing import ScriptedServer

ROWS = [
    {
        "id": f"r{at}",
        "question": f"What is {at}?",
        "response": f"It is {'right' if at % 3 else 'wrong'} {at}.",
        "passage": f"It is right {at}.",
        "human": 4 if at % 3 else 1,
    }
    for at in range(24)
]
SET = (
    "rows.jsonl",
    "--map",
    "human=label.faithfulness(1..4)",
    "--map",
    "passage=retrieved_contexts",
)


def reply(body: dict[str, Any]) -> str:
    """A judge that is right, but answers three rows with prose."""
    text = json.dumps(body["messages"])
    if any(f"What is {at}?" in text for at in (7, 8, 10)):
        return "I cannot say."
    return json.dumps({"reasoning": "Seen.", "score": 1 if "It is wrong" in text else 5})


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: reply(request.body)) as scripted:
        yield scripted


def project_at(folder: Path, server: ScriptedServer) -> Path:
    model = f"{server.url}#judge"
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\njudge: {{model: '{model}'}}\n"
        f"models: {{'{model}': {{price_in: 1.0, price_out: 1.0}}}}\n"
    )
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


def test_a_column_named_ID_is_the_id_of_a_row(tmp_path: Path) -> None:
    rows = "ID,question,response,reference,human\n" + "".join(
        f"a{at},Who is {at}?,{'Ada' if at % 3 else 'Bo'},Ada,{4 if at % 3 else 1}\n"
        for at in range(24)
    )
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    words = ("passport", "rows.csv", "--map", "human=label.right(1..4)", "--measures", "TokenF1")
    for more in ((), ("--map", "ID=id")):
        found = json.loads(ragwright(tmp_path, *words, *more, "--json").stdout)
        assert found["rows"] == 24


@pytest.mark.slow
def test_a_chat_judge_gets_a_passport_that_the_gate_reads(
    tmp_path: Path, server: ScriptedServer
) -> None:
    project = project_at(tmp_path, server)
    model = f"{server.url}#judge"
    command = ("passport", *SET, "--judge", model, "--measures", "Faithfulness,KPrecision")
    before = len(server.requests)
    dry = json.loads(ragwright(project, *command, "--dry-run", "--json").stdout)
    assert dry["calls"]["expected"] >= len(ROWS)
    assert len(server.requests) == before
    document = json.loads(ragwright(project, *command, "--json").stdout)
    assert (document["set"], document["rows"]) == ("rows", 24)
    name = f"Faithfulness by {model}"
    figures = document["judges"][name]["faithfulness"]
    assert figures["rows"] == 21
    assert figures["spearman"]["value"] == 1
    about = document["about"][name]
    assert about["states"] == {"judge_invalid": 3, "scored": 21}
    assert about["unusable"]["value"] == pytest.approx(0.125)
    assert about["cost_100"] > 0
    assert document["about"]["KPrecision"]["cost_100"] == 0
    assert figures["versus"].keys() == {"KPrecision"}

    made = len(server.requests)
    ragwright(project, *command, "--quiet")  # every reply is known: nothing is paid twice
    assert len(server.requests) - made <= 6  # the three unusable replies are asked for again
    [path] = (project / "passports").glob("*.json")

    rows = [{**row, "retrieved_contexts": [row["passage"]]} for row in ROWS]
    (project / "answers.jsonl").write_text(
        "\n".join(
            json.dumps({name: row[name] for name in row if name not in ("passage", "human")})
            for row in rows
        )
    )
    ragwright(project, "score", "answers.jsonl", "--measures", "Faithfulness", "--quiet")
    gate = ("gate", "latest", "--rule", "Faithfulness>=2", "--floor", "0.5", "--calibrated")
    shown = ragwright(project, *gate).stdout
    assert f"passport on rows (faithfulness, {path.name})" in shown
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    for words in (gate, ("report", "latest", "-o", "page.html")):
        refused = ragwright(project, *words, code=1).stderr
        assert "this is not a passport" in refused
        assert path.name in refused
    path.unlink()
    refused = ragwright(project, *gate, code=101).stdout
    assert "its judge has no passport" in refused


def test_outside_a_project_nothing_is_stored(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    shown = ragwright(tmp_path, "passport", *SET, "--measures", "KPrecision").stdout
    assert "rows: 24 rows of 24 tasks judged by people" in shown
    assert "KPrecision agrees best with people on faithfulness" in shown
    judged = ragwright(tmp_path, "passport", *SET, "--judge", "openai:m", code=1)
    assert "ragwright init" in judged.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    error = ragwright(tmp_path, "passport", "qagz:rows.jsonl", code=1).stderr
    assert "did you mean 'qags'?" in error


def test_of_two_passports_of_one_day_the_newer_counts(tmp_path: Path) -> None:
    """The names of their files are hashes, which say nothing of their order."""
    ragwright(tmp_path, "init")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "again.jsonl").write_text("\n".join(map(json.dumps, ROWS[:12])))
    for names in (("rows", "again"), ("again", "rows")):
        for name in names:
            words = (f"{name}.jsonl", *SET[1:], "--measures", "KPrecision")
            shown = json.loads(ragwright(tmp_path, "passport", *words, "--json").stdout)
            assert shown["date"]
        assert [passport.set for _, passport in list_passports(tmp_path)] == list(names)
