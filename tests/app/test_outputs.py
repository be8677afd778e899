"""`outputs` from the command line, from drafts of a scripted server to a passport."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served_answers import BAD, GOOD, Days, live, serve_answers
from small_project import MakeProject
from story_tools import lacking, playing, read_json, read_rows, run, write_files, write_rows
from voted import serve_answer

from ragwright import Workbench
from ragwright.testing import ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow


def said(request: ServerRequest) -> str:
    """Texts where they are asked for, a judgment where that is."""
    asked = json.dumps(request.body["messages"])
    if request.body["model"] == "judge":
        return json.dumps({"reasoning": "Seen.", "score": 5 if "Quartz" in asked else 2})
    wanted = re.search(r"Write (\d+) such texts", asked)
    names = ("One", "Quartz", "Three", "Four")[: int(wanted[1]) if wanted else 1]
    return "\n".join(
        f"{n}. {name}: your gift keeps clinics open." for n, name in enumerate(names, 1)
    )


server = playing(said)


@pytest.fixture
def project(tmp_path: Path, server: ScriptedServer) -> Path:
    """Records of two clients, and settings to draft from them and to judge."""
    ending = "dollars for health care before midnight, every cent counts number"
    rows = [
        {
            "key": str(n),
            "sender": "Jane Doe" if n % 2 else "John Roe",
            "body": f"Give {n} {ending} {n}",
        }
        for n in range(40)
    ]
    settings = f"answer:\n  model: '{server.url}#writer'\n  draft: {{examples: 3, pool: 8}}\n"
    files = {
        "ragwright.yaml": f"{settings}judge: {{model: '{server.url}#judge'}}\n",
        "records/source.yaml": "source: messages.jsonl\nkey: key\ntext: body\n",
        "records/tags.yaml": "tags: {donate_ask: '(?i)give', health_care_hook: '(?i)health'}\n",
        "records/rollups.yaml": "client: {column: sender}\n",
    }
    write_rows(write_files(tmp_path, files) / "messages.jsonl", rows)
    run(tmp_path, "records refresh")
    return tmp_path


def draft(folder: Path, *words: str) -> Any:
    asked = ("--client", "Jane Doe", "--topic", "health care", *words)
    return read_json(folder, "draft --ask donate -n 2", *asked)


def test_drafts_are_listed_judged_measured_and_forgotten(project: Path) -> None:
    for kind in ("outputs", "records"):
        line = f"{kind} export{' gold' * (kind == 'records')} -o {kind}/b/all.csv".split()
        assert f"created folder {kind}/b\n" in ragwright(project, *line).stderr
        assert "created folder" not in ragwright(project, *line).stderr
    assert [draft(project)["batch"], draft(project, "--headline", "Rain")["batch"]] == [1, 2]
    listed = read_json(project, "outputs list")
    assert listed["total"] == 4
    assert [o["id"] for o in listed["outputs"]] == ["2.1", "2.2", "1.1", "1.2"]
    assert listed["outputs"][0]["source"].endswith("#writer")
    assert read_json(project, "outputs list --kind prompt")["outputs"][0]["id"] == "2.p1"
    assert read_json(project, "outputs list --since 1h --limit 1")["total"] == 4
    assert read_json(project, "outputs list --until 1h")["total"] == 0
    assert "One: your gift" in run(project, "outputs list")
    batch = read_json(project, "outputs show 2")
    assert batch["request"]["headlines"] == ["Rain"]
    assert len(batch["hits"]) == 8
    assert batch["hits"][0]["met"]
    prompt = batch["outputs"][0]
    assert (prompt["kind"], prompt["source"]) == ("prompt", "prompt")
    assert json.loads(prompt["text"])[0]["role"] == "system"
    assert "configuration" in run(project, "outputs show 2")
    one = run(project, "outputs show 1.2")
    assert not lacking(one, "client: Jane Doe", "Quartz: your gift")
    assert "One: your gift" not in one
    assert read_json(project, "outputs show 1.2")["text"].startswith("Quartz")
    assert "Write 2 such texts" in run(project, "outputs show 2 --prompts")
    for words in ("1 --prompts", "1.p1"):
        shown = run(project, f"outputs show {words}")
        assert re.search(r"^system:\n  \S.*\n(?s:.*)^user:\n  \S", shown, re.MULTILINE)
        assert '"role"' not in shown
        assert "\\n" not in shown

    run(project, "outputs feedback 1.1 --reject --by ann --score 2")
    run(project, "outputs feedback 1.2 --reject --by ann")
    run(project, "outputs feedback 1.2 --accept --score 5 --note good")
    history = read_json(project, "outputs feedback 1.2 --history")["feedback"]
    said = [(one["verdict"], one["note"]) for one in history]
    assert said == [("rejected", ""), ("accepted", "good")]
    assert read_json(project, "outputs list --verdict accepted")["total"] == 1

    measured = "outputs evaluate --measures AnswerRelevance"
    shown = run(project, f"{measured} --name served --labels labels.jsonl")
    assert "4 of 4 stored texts" in shown
    score = "--map metadata.feedback_score=label.AnswerRelevance(1..5)"
    found = read_json(project, f"passport labels.jsonl {score} --verdicts served")
    figures = next(body for name, body in found["judges"].items() if name.startswith("Answer"))
    assert (found["rows"], figures["AnswerRelevance"]["rows"]) == (2, 2)
    assert figures["AnswerRelevance"]["bias"]["value"] == 0
    run(project, "gate served --rule AnswerRelevance>=3 --least 4")
    few = read_json(project, f"{measured} --sample 2 --seed 7")
    assert few["measures"]["AnswerRelevance"]["n"] == 2
    for name, lines in (("rows.jsonl", 4), ("all.csv", 7), ("fit.chat.jsonl", 1)):
        run(project, f"outputs export -o {name}")
        assert len((project / name).read_text().splitlines()) == lines
    [chat] = read_rows(project / "fit.chat.jsonl")
    assert [turn["role"] for turn in chat["messages"]] == ["system", "user", "assistant"]
    assert "health care" in chat["messages"][1]["content"]
    with Workbench.open(project) as bench:
        example = bench.outputs.used("2.1")[0].document_id
    assert read_json(project, f"forget {example}")["outputs"] >= 3
    run(project, "cache clear")
    assert read_json(project, "outputs list")["total"] <= 4


def test_what_belongs_to_a_tenant_is_named_or_left_out(project: Path) -> None:
    """One default for listing, exporting and measuring: what belongs to no tenant."""
    assert [draft(project)["batch"], draft(project, "--scope", "acme")["batch"]] == [1, 2]
    assert read_json(project, "outputs show 2")["scope"] == "acme"
    for words, count in (("", 2), ("--scope acme", 2), ("--every-scope", 4)):
        run(project, f"outputs export {words} -o rows.jsonl")
        assert len((project / "rows.jsonl").read_text().splitlines()) == count
        assert read_json(project, f"outputs list {words}")["total"] == count
    said = "outputs of tenants are left out: --scope TENANT, or --every-scope"
    for line in ("outputs list", "outputs export -o all.csv"):
        assert said in ragwright(project, *line.split()).stderr
    assert said not in ragwright(project, "outputs", "list", "--scope", "acme").stderr
    for words in ("", "--scope acme"):
        shown = run(project, f"outputs evaluate --measures AnswerRelevance {words}")
        assert "2 of 2 stored texts" in shown


def test_what_drafts_were_made_under_is_promoted_served_and_refreshed(project: Path) -> None:
    draft(project, "--set", "answer.draft.examples=4")
    run(project, "outputs evaluate --measures AnswerRelevance --name four")
    run(project, "promote four --gate AnswerRelevance>=2 --least 2")
    numbers = [draft(project, *words)["batch"] for words in ((), ("--served",))]
    served = [read_json(project, f"outputs show {number}") for number in numbers]
    assert [batch["served"] for batch in served] == [None, 1]
    shown = read_json(project, "outputs list --configuration 1")["outputs"]
    assert {output["batch"] for output in shown} == {3}, "the first was not served yet"
    with Workbench.open(project) as bench:
        assert [len(bench.outputs.used(f"{number}.1")) for number in numbers] == [3, 4]
    with (project / "ragwright.yaml").open("a") as file:
        file.write("keyword: {language: de}\n")
    row = {"key": "new", "sender": "Ann Lee", "body": "Give Ann Lee a hand with health care"}
    with (project / "messages.jsonl").open("a") as file:
        file.write(json.dumps(row))
    assert read_json(project, "records refresh")["index"]["written"] == 41, "an index of its own"
    asked = ("Ann Lee", "--filter", "client=Ann Lee")
    assert read_json(project, "retrieve", *asked)["hits"][0]["document_id"] == "record:new"
    assert "Ann Lee" in ragwright(project, "retrieve", *asked, "--served", code=1).stderr
    done = read_json(project, "records refresh --served")
    assert done["bronze"] == {"inserted": 0, "updated": 0, "unchanged": 41}
    assert (done["index"]["written"], done["index"]["unchanged"]) == (1, 40)
    hits = read_json(project, "retrieve --served", *asked)["hits"]
    assert hits[0]["document_id"] == "record:new"
    for words in ("records refresh", "records refresh --served"):
        assert read_json(project, words)["index"]["written"] == 0


def test_feedback_is_one_verdict_and_a_score_within_the_scales(project: Path) -> None:
    draft(project)
    off = [(f"1.1 --score={score}", "from -1 to 100") for score in ("nan", "inf", "-inf", "1e308")]
    for words, told in (
        *off,
        ("1.1 --score=-1.5", "from -1 to 100"),
        ("1.1 --score=100.5", "from -1 to 100"),
        ("1.p1 --accept", "1.p1 is a prompt"),
        ("1.p1 --accept", "ragwright outputs show 1"),
        ("1.9 --accept", "no output '1.9'"),
        ("1.1", "is empty"),
        ("1.1 --accept --history", "--history cannot be combined with feedback"),
    ):
        assert told in ragwright(project, "outputs", "feedback", *words.split(), code=1).stderr
    assert read_json(project, "outputs feedback 1.1 --history") == {"feedback": []}
    for score in ("-1", "0", "100"):
        run(project, f"outputs feedback 1.1 --score={score}")


def test_corrections_are_given_shown_and_refused(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
        serve_answer(bench, "How often must the brake fluid be changed?")
    given = ("outputs", "feedback", "1.1", "--correction", "two years", "--passage")
    shown = json.loads(ragwright(folder, *given, "1", "--json").stdout)["feedback"][-1]
    assert (shown["correction"], shown["passages"]) == ("two years", [1])
    assert "no citation 5" in ragwright(folder, *given, "5", code=1).stderr
    empty = ragwright(folder, *given[:4], " ", code=1).stderr
    assert "the feedback is empty" in empty


# -- drift -----------------------------------------------------------------------------------

MEASURED = "serve: {measure: {share: 1, window: 14}}\n"


def test_drift_is_shown_and_ends_as_a_gate_does(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(MEASURED)
    assert "has no score yet" in run(folder, "outputs drift", code=101)
    rng, clock = random.Random(3), Days(40)
    with Workbench.open(folder) as bench:
        live(bench, clock, 20, 0.05, rng)
        quiet = read_json(folder, "outputs drift", code=None)
        assert quiet["measures"][0]["verdict"] == "unproven"
        live(bench, clock, 20, 0.7, rng, model="http://h/v1#cheap")
    shown = run(folder, "outputs drift", code=100)
    assert "fell from" in shown.splitlines()[0]
    found = read_json(folder, "outputs drift", code=100)
    assert found["state"] == "worse"
    assert found["measures"][0]["text"].startswith("KPrecision(content+bigrams) fell")
    assert "has no score yet" in run(folder, "outputs drift --scope acme", code=101)


def test_served_answers_are_measured_by_a_job_and_rejected_ones_reviewed(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(MEASURED)
    with Workbench.open(folder) as bench:
        wrong, _ = serve_answers(bench.outputs, [BAD, GOOD], persona="engineer")
        note = "It must say every two years."
        bench.outputs.respond(wrong, by="ann", verdict="rejected", note=note)
    done = read_json(folder, "outputs measure")
    assert (done["drawn"], done["scored"], done["waiting"]) == (2, 2, 0)
    assert "0 answers drawn" in run(folder, "outputs measure")
    run(folder, "outputs export --verdict rejected -o complaints.jsonl")
    [row] = read_rows(folder / "complaints.jsonl")
    facts = (row["user_input"], row["response"], row["persona_name"])
    assert facts == ("How often? 0", BAD, "engineer")
    assert not lacking(json.dumps(row), "every two years", "feedback_note")
    done = ragwright(folder, "review", "complaints.jsonl", typed="e\n\nEvery two years.\nq\n")
    assert "accepted" in done.stdout
    [row] = read_rows(folder / "complaints.jsonl")
    assert row["reference"] == "Every two years."
