"""`ragwright outputs` from the command line, from drafts of a scripted server to a passport."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import ragwright as called

from ragwright import Workbench
from ragwright.testing import ScriptedServer, ServerRequest

MESSAGES = [
    {
        "key": str(at),
        "sender": "Jane Doe" if at % 2 else "John Roe",
        "body": f"Give {at} dollars for health care before midnight, every cent counts number {at}",
    }
    for at in range(40)
]
SOURCE = "source: messages.jsonl\nkey: key\ntext: body\n"
TAGS = "tags:\n  donate_ask: '(?i)give'\n  health_care_hook: '(?i)health care'\n"
ROLLUPS = "client: {column: sender}\n"


def said(request: ServerRequest) -> str:
    """Texts where they are asked for, a judgment where that is."""
    asked = json.dumps(request.body["messages"])
    if request.body["model"] == "judge":
        return json.dumps({"reasoning": "Seen.", "score": 5 if "Quartz" in asked else 2})
    wanted = re.search(r"Write (\d+) such texts", asked)
    names = ("One", "Quartz", "Three", "Four")[: int(wanted[1]) if wanted else 1]
    lines = [f"{n}. {name}: your gift keeps clinics open." for n, name in enumerate(names, 1)]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(said) as scripted:
        yield scripted


@pytest.fixture
def project(tmp_path: Path, server: ScriptedServer) -> Path:
    (tmp_path / "ragwright.yaml").write_text(
        f"answer:\n  model: '{server.url}#writer'\n  draft: {{examples: 3, pool: 8}}\n"
        f"judge: {{model: '{server.url}#judge'}}\n"
    )
    (tmp_path / "messages.jsonl").write_text("\n".join(map(json.dumps, MESSAGES)))
    records = tmp_path / "records"
    records.mkdir()
    for name, text in (("source", SOURCE), ("tags", TAGS), ("rollups", ROLLUPS)):
        (records / f"{name}.yaml").write_text(text)
    called(tmp_path, "records", "refresh")
    return tmp_path


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(called(folder, *words, "--json", code=code).stdout)


def draft(folder: Path, *words: str) -> Any:
    asked = ("--client", "Jane Doe", "--ask", "donate", "--topic", "health care", "-n", "2")
    return told(folder, "draft", *asked, *words)


@pytest.mark.slow
def test_drafts_are_listed_judged_measured_and_forgotten(project: Path) -> None:
    assert [draft(project)["batch"], draft(project, "--headline", "Rain")["batch"]] == [1, 2]
    listed = told(project, "outputs", "list")
    assert listed["total"] == 4
    assert [o["id"] for o in listed["outputs"]] == ["2.1", "2.2", "1.1", "1.2"]
    assert listed["outputs"][0]["source"].endswith("#writer")
    assert told(project, "outputs", "list", "--kind", "prompt")["outputs"][0]["id"] == "2.p1"
    assert told(project, "outputs", "list", "--since", "1h", "--limit", "1")["total"] == 4
    assert told(project, "outputs", "list", "--until", "1h")["total"] == 0
    shown = called(project, "outputs", "list").stdout
    assert "One: your gift" in shown

    batch = told(project, "outputs", "show", "2")
    assert batch["request"]["headlines"] == ["Rain"]
    assert len(batch["hits"]) == 8
    assert batch["hits"][0]["met"]
    prompt = batch["outputs"][0]
    assert (prompt["kind"], prompt["source"]) == ("prompt", "prompt")
    assert json.loads(prompt["text"])[0]["role"] == "system"
    assert "configuration" in called(project, "outputs", "show", "2").stdout
    assert "Write 2 such texts" in called(project, "outputs", "show", "2", "--prompts").stdout

    called(project, "outputs", "feedback", "1.1", "--reject", "--by", "ann", "--score", "2")
    called(project, "outputs", "feedback", "1.2", "--reject", "--by", "ann")
    called(project, "outputs", "feedback", "1.2", "--accept", "--score", "5", "--note", "good")
    history = told(project, "outputs", "feedback", "1.2", "--history")["feedback"]
    assert [(one["verdict"], one["note"]) for one in history] == [
        ("rejected", ""),
        ("accepted", "good"),
    ]
    assert told(project, "outputs", "list", "--verdict", "accepted")["total"] == 1

    measured = ("outputs", "evaluate", "--measures", "AnswerRelevance")
    done = called(project, *measured, "--name", "served", "--labels", "labels.jsonl")
    assert "4 of 4 stored texts" in done.stdout
    assert "2 of them have feedback: 1 accepted, 1 rejected" in done.stdout
    score = "metadata.feedback_score=label.AnswerRelevance(1..5)"
    found = told(project, "passport", "labels.jsonl", "--map", score, "--verdicts", "served")
    figures = next(body for name, body in found["judges"].items() if name.startswith("Answer"))
    assert (found["rows"], figures["AnswerRelevance"]["rows"]) == (2, 2)
    assert figures["AnswerRelevance"]["bias"]["value"] == 0
    called(project, "gate", "served", "--rule", "AnswerRelevance>=3", "--least", "4")
    called(project, "compare", "served", "served")
    called(project, "report", "served", "-o", "report.html")
    few = told(project, *measured, "--sample", "2", "--seed", "7")
    assert few["measures"]["AnswerRelevance"]["n"] == 2

    with Workbench.open(project) as bench:
        example = bench.outputs.used("2.1")[0].document_id
    gone = told(project, "forget", example)
    assert gone["outputs"] >= 3
    called(project, "cache", "clear")
    assert told(project, "outputs", "list")["total"] <= 4


@pytest.mark.slow
def test_outputs_are_exported_for_others(project: Path) -> None:
    draft(project)
    called(project, "outputs", "feedback", "1.2", "--accept")
    for name, lines in (("rows.jsonl", 2), ("all.csv", 4), ("fit.chat.jsonl", 1)):
        called(project, "outputs", "export", "-o", name)
        assert len((project / name).read_text().splitlines()) == lines
    turns = json.loads((project / "fit.chat.jsonl").read_text())["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant"]
    assert "health care" in turns[1]["content"]
    called(project, "score", "rows.jsonl", "--measures", "KPrecision")
    done = called(project, "outputs", "export", "-o", "all.doc", code=1)
    assert "unknown suffix of" in done.stderr


@pytest.mark.slow
def test_costs_in_the_table_add_up_to_what_was_paid(project: Path) -> None:
    """A batch of three calls, the same from known replies, and another one that is paid."""
    settings = project / "ragwright.yaml"
    with settings.open("a") as file:
        model = yaml.safe_load(settings.read_text())["answer"]["model"]
        file.write(f"models: {{'{model}': {{price_in: 100, price_out: 100}}}}\n")
    long = ("--length", "long", "--set", "answer.draft.examples=1", "--set", "answer.draft.pool=1")
    made = [draft(project, *words) for words in (long, long, ())]
    costs = [batch["cost"] or 0 for batch in made]
    assert costs[0] > 0
    assert costs[2] > 0
    assert (costs[1], made[1]["usage"]["calls"]) == (0, 0)
    called(project, "outputs", "export", "-o", "all.csv")
    with (project / "all.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert sum(float(line["cost"] or 0) for line in lines) == pytest.approx(sum(costs))
    assert sum(int(line["calls"]) for line in lines) == sum(b["usage"]["calls"] for b in made)
    known = [
        float(one["reply_cost"]) for one in lines if (one["batch"], one["kind"]) == ("2", "prompt")
    ]
    assert sum(known) == pytest.approx(costs[0])


@pytest.mark.slow
def test_what_belongs_to_a_tenant_is_named_or_left_out(project: Path) -> None:
    """One default for listing, exporting and measuring: what belongs to no tenant."""
    assert [draft(project)["batch"], draft(project, "--scope", "acme")["batch"]] == [1, 2]
    assert told(project, "outputs", "show", "2")["scope"] == "acme"

    def counts(*words: str) -> tuple[int, int]:
        called(project, "outputs", "export", *words, "-o", "rows.jsonl")
        listed = told(project, "outputs", "list", *words)["total"]
        return listed, len((project / "rows.jsonl").read_text().splitlines())

    assert counts() == (2, 2)
    assert counts("--scope", "acme") == (2, 2)
    assert counts("--every-scope") == (4, 4)
    said = "outputs of tenants are left out: --scope TENANT, or --every-scope"
    assert said in called(project, "outputs", "list").stderr
    assert said in called(project, "outputs", "export", "-o", "all.csv").stderr
    assert said not in called(project, "outputs", "list", "--scope", "acme").stderr
    for words in ((), ("--scope", "acme")):
        done = called(project, "outputs", "evaluate", "--measures", "AnswerRelevance", *words)
        assert "2 of 2 stored texts" in done.stdout
    both = ("--scope", "acme", "--every-scope")
    assert "covers more than one tenant" in called(project, "outputs", "list", *both, code=1).stderr


@pytest.mark.slow
def test_what_drafts_were_made_under_is_promoted_and_served(project: Path) -> None:
    draft(project, "--set", "answer.draft.examples=4")
    called(project, "outputs", "evaluate", "--measures", "AnswerRelevance", "--name", "four")
    called(project, "promote", "four", "--gate", "AnswerRelevance>=2", "--least", "2")
    numbers = [draft(project, *words)["batch"] for words in ((), ("--served",))]
    served = [told(project, "outputs", "show", str(number)) for number in numbers]
    assert [batch["served"] for batch in served] == [None, 1]
    shown = told(project, "outputs", "list", "--configuration", "1")["outputs"]
    assert {output["batch"] for output in shown} == {3}  # the first was not served yet
    with Workbench.open(project) as bench:
        used = [len(bench.outputs.used(f"{number}.1")) for number in numbers]
    assert used == [3, 4]


@pytest.mark.slow
def test_the_served_index_of_records_is_refreshed_beside_the_project_s_own(project: Path) -> None:
    draft(project)
    called(project, "outputs", "evaluate", "--measures", "AnswerRelevance", "--name", "plain")
    called(project, "promote", "plain", "--gate", "AnswerRelevance>=2", "--least", "2")
    settings = project / "ragwright.yaml"
    settings.write_text(f"{settings.read_text()}keyword: {{language: de}}\n")
    row = {"key": "new", "sender": "Ann Lee", "body": "Give Ann Lee a hand with health care"}
    with (project / "messages.jsonl").open("a") as file:
        file.write(f"\n{json.dumps(row)}")
    assert told(project, "records", "refresh")["index"]["written"] == 41  # an index of its own

    asked = ("retrieve", "Ann Lee", "--filter", "client=Ann Lee")
    found = [told(project, *asked)["hits"], called(project, *asked, "--served", code=1).stderr]
    assert found[0][0]["document_id"] == "record:new"
    assert "Ann Lee" in found[1]
    done = told(project, "records", "refresh", "--served")
    assert done["bronze"] == {"inserted": 0, "updated": 0, "unchanged": 41}
    assert (done["index"]["written"], done["index"]["unchanged"]) == (1, 40)
    assert told(project, *asked, "--served")["hits"][0]["document_id"] == "record:new"
    assert told(project, "records", "refresh")["index"]["written"] == 0
    assert told(project, "records", "refresh", "--served")["index"]["written"] == 0


@pytest.mark.slow
def test_what_cannot_be_is_told(project: Path) -> None:
    done = called(project, "outputs", "evaluate", "--measures", "KPrecision", code=1)
    assert "no stored text" in done.stderr
    draft(project)
    for words, message in (
        (("show", "9"), "no batch 9"),
        (("feedback", "1.9", "--accept"), "no output '1.9'"),
        (("feedback", "1.1"), "is empty"),
        (
            ("feedback", "1.1", "--accept", "--history"),
            "--history cannot be combined with feedback",
        ),
        (("list", "--kind", "texts"), "unknown kind"),
        (("list", "--verdict", "fine"), "unknown verdict"),
        (("list", "--since", "yesterday"), "is not a time"),
        (("evaluate", "--measures", "Nonsense"), "Nonsense"),
    ):
        done = called(project, "outputs", *words, code=1)
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert "no outputs" in called(project, "outputs", "list", "--client", "X").stdout


@pytest.mark.slow
def test_feedback_is_one_verdict_and_a_score_within_the_scales(project: Path) -> None:
    draft(project)
    both = called(project, "outputs", "feedback", "1.1", "--accept", "--reject", code=2)
    assert "--accept or --reject, not both" in both.stderr
    for score in ("nan", "inf", "-inf", "1e308", "-1.5", "100.5"):
        done = called(project, "outputs", "feedback", "1.1", "--score", score, code=1)
        assert "from -1 to 100" in done.stderr
    refused = called(project, "outputs", "feedback", "1.p1", "--accept", code=1)
    assert "1.p1 is a prompt" in refused.stderr
    assert "ragwright outputs show 1" in refused.stderr
    assert told(project, "outputs", "feedback", "1.1", "--history") == {"feedback": []}
    for score in ("-1", "0", "100"):
        called(project, "outputs", "feedback", "1.1", "--score", score)


@pytest.mark.slow
def test_one_output_is_shown_by_its_id_and_prompts_turn_by_turn(project: Path) -> None:
    draft(project)
    one = called(project, "outputs", "show", "1.2").stdout
    assert "client: Jane Doe" in one
    assert "Quartz: your gift" in one
    assert "One: your gift" not in one
    assert told(project, "outputs", "show", "1.2")["text"].startswith("Quartz")
    for words in (("1", "--prompts"), ("1.p1",)):
        shown = called(project, "outputs", "show", *words).stdout
        assert re.search(r"^system:\n  \S.*\n(?s:.*)^user:\n  \S", shown, re.MULTILINE)
        assert '"role"' not in shown
        assert "\\n" not in shown
    assert "no output" in called(project, "outputs", "show", "1.9", code=1).stderr
    assert "no output 'x'" in called(project, "outputs", "show", "x", code=1).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("outputs", "export", "-o", "a/b/all.csv"),
        ("records", "export", "gold", "-o", "a/b/gold.csv"),
        ("records", "check", "-o", "a/b/check.txt"),
    ],
)
def test_a_folder_that_a_file_needs_is_made_and_named(
    project: Path, words: tuple[str, ...]
) -> None:
    assert "created folder a/b\n" in called(project, *words).stderr
    assert (project / words[-1]).is_file()
    assert "created folder" not in called(project, *words).stderr
