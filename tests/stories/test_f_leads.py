"""SPEC F: what none of the source systems has."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from story_tools import lacking, make_project, playing, read_json, read_rows, settings, write_rows

from ragwright.testing import ScriptedServer, ServerRequest

PARTS = ("pump", "valve", "tank", "filter", "boiler", "meter", "hose", "clamp", "sieve", "gauge")
TEXTS = {
    f"{part}.md": f"# The {part}\n\nThe {part} is checked every {n + 3} weeks by the plumber.\n"
    for n, part in enumerate(PARTS)
}


def question(part: str) -> str:
    return f"How often is the {part} checked?"


def row(part: str, split: str = "tune", **more: object) -> dict[str, object]:
    text, weeks = TEXTS[f"{part}.md"], f"every {PARTS.index(part) + 3} weeks"
    at = text.index(weeks)
    span = {"document_id": f"docs/{part}.md", "start": at, "end": at + len(weeks), "text": weeks}
    gold: dict[str, object] = {"reference": weeks, "reference_spans": [span], "split": split}
    return {"id": f"{part}-{split}", "user_input": question(part), **gold, **more}


def reads(request: ServerRequest) -> str:
    """Answers from the passage on the part asked about; plain words lose the number."""
    if "messages" not in request.body:
        return ""
    prompt = "\n".join(str(turn["content"]) for turn in request.body["messages"])
    asked = next((part for part in PARTS if question(part) in prompt), "")
    weeks = f"every {PARTS.index(asked) + 3} weeks" if asked else ""
    if not weeks or f"{asked} is checked {weeks}" not in prompt:
        return "The passages do not answer this question."
    careless = request.body["model"] == "careless" or "nowhere else" not in prompt
    return "Now and then [1]." if careless else f"It is checked {weeks} [1]."


server = playing(reads)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    model = f"{server.url}#writer"
    chosen = f"answer: {{model: '{model}', max_tokens: 20}}\nretrieve: {{top_k: 3}}\n"
    chosen += f"models: {{'{model}': {{price_in: 1.0, price_out: 1.0}}}}\n"
    folder = make_project(tmp_path_factory.mktemp("f"), TEXTS, chosen)
    write_rows(folder / "set.jsonl", [row(part) for part in PARTS])
    return folder


def test_f1_one_file_and_one_store_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "pump.md").write_text(TEXTS["pump.md"])
    ragwright(tmp_path, "init", "home", "--source", "../texts", "-q")
    home = tmp_path / "home"
    assert read_json(home, "ingest")["documents"]["added"] == 1
    assert read_json(home, "retrieve", question("pump"))["hits"][0]["title"] == "The pump"
    assert read_json(home, "ask", question("pump"))["answers"][0]["abstained"] is False
    gold = {"id": "1", "user_input": question("pump"), "reference_contexts": ["every 3 weeks"]}
    write_rows(home / "rows.jsonl", [gold])
    asked = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--retrieval-only")
    told = read_json(home, "eval", *asked)
    assert told["measures"]["HitRate@1"]["mean"] == 1.0
    assert {path.name for path in home.iterdir() if path.is_file()} >= {"ragwright.yaml"}
    assert (home / ".ragwright" / "data").is_dir()
    again = read_json(home, "ingest")
    assert (again["documents"]["unchanged"], again["chunks"]["added"]) == (1, 0)


def test_f2_states_are_counted_beside_every_mean(tmp_path: Path) -> None:
    def judge(request: ServerRequest) -> str:
        shown = json.dumps(request.body["messages"])
        score = {"reasoning": "so", "score": 5 if "zebra" in shown else 3}
        return "I cannot say." if "quagga" in shown else json.dumps(score)

    (tmp_path / "ragwright.yaml").write_text("sources: []\n")
    responses = ["a zebra", "a horse", "a quagga", "two zebras"]
    rows = [{"id": r, "user_input": f"What {n}?", "response": r} for n, r in enumerate(responses)]
    write_rows(tmp_path / "rows.jsonl", rows)
    with ScriptedServer(judge) as server:
        asked = ("score", "rows.jsonl", "--measures", "AnswerRelevance", "--rows", "-q")
        told = read_json(tmp_path, *asked, *settings(judge__model=f"{server.url}#judge"))
    found = told["measures"]["AnswerRelevance"]
    assert (found["n"], found["mean"], found["coverage"]) == (3, pytest.approx(13 / 3), 0.75)
    assert found["states"] == {"scored": 3, "judge_invalid": 1}
    assert found["low"] <= found["mean"] <= found["high"]
    odd = told["rows"][2]
    assert (odd["AnswerRelevance"], odd["AnswerRelevance state"]) == (None, "judge_invalid")
    assert "I cannot say." in odd["AnswerRelevance reason"]


def test_f3_the_confirm_split_is_opened_once_and_no_change_is_a_verdict(project: Path) -> None:
    both = [
        row(part, split, user_input=f"{'The pump, the pump: ' * (part == 'gauge')}{part} {split}?")
        for part in PARTS
        for split in ("tune", "confirm")
    ]
    write_rows(project / "both.jsonl", both)
    study = {"testset": "both.jsonl", "measures": "HitRate@2"}
    (project / "study.yaml").write_text(json.dumps({"study": study, "retrieve": {"top_k": [1, 2]}}))
    swept = read_json(project, "sweep", "study.yaml", *settings(retrieve__top_k=1), "-q")
    means = {t["id"]: t["measures"]["HitRate@2"]["mean"] for t in swept["trials"]}
    assert (means["T000"], means["T002"]) == (0.9, 1.0), "the current settings, and two hits"
    assert not [*project.rglob("openings.jsonl")], "the tune split picks"
    told = read_json(project, "confirm", "-q")
    assert any(note.startswith("least provable gain: about ") for note in told["notes"])
    [verdict] = told["confirmations"]
    assert (verdict["trial"], verdict["outcome"]) == ("T002", "no change proven")
    assert verdict["confirmed"]["difference"] == pytest.approx(0.1)
    assert verdict["confirmed"]["low"] < 0 < verdict["confirmed"]["high"]
    assert verdict["confirmed"]["smallest"] > 0.1, "the least gain that such rows could prove"
    [log] = project.rglob("openings.jsonl")
    opened = log.read_text()
    assert len(opened.splitlines()) == 1
    again = ragwright(project, "confirm")
    assert again.stdout.startswith("No change proven for T002: +0.1000 HitRate@2")
    assert "already confirmed" in again.stderr
    assert log.read_text() == opened


def test_f4_curves_have_a_control_without_passages(project: Path) -> None:
    made = ("suite", "make", "--testset", "set.jsonl", "-o", "suite.jsonl", "--passages", "2")
    ragwright(project, *made, "--suite", "noise", "--doses", "0,1", "-q")
    for line in read_rows(project / "suite.jsonl"):
        held = [text for text in line.get("retrieved_contexts", ()) if line["reference"] in text]
        about = line["metadata"]
        assert bool(held) == (about["suite"] == "noise" and about["dose"] == 0)
    read_json(project, "eval", "--testset", "suite.jsonl", "-q")
    [curve] = read_json(project, "suite", "curves")["curves"]
    assert [(point["dose"], point["mean"]) for point in curve["points"]] == [(0, 1.0), (1, 0.0)]
    assert curve["points"][0]["closed_book"] == 0, "the model does not know it by heart"


def test_f5_each_part_of_the_prompt_has_an_effect_and_a_price(project: Path) -> None:
    asked = ("ablate", "--testset", "set.jsonl", "--measures", "Contains")
    told = read_json(project, *asked, "--parts", "only_context,role", "-q")
    needed, idle = told["parts"]
    assert (needed["part"], needed["safe"]) == ("only_context", False)
    [effect] = needed["effects"]
    assert (effect["difference"], effect["verdict"]) == (1.0, "helps")
    assert 0 < effect["low"] < effect["difference"] <= effect["high"]
    assert (idle["part"], idle["safe"]) == ("role", False), "ten rows prove no safety"
    assert needed["tokens"] > 0
    assert told["verdict"][0].startswith("Proven on 10 rows: only_context helps (Contains +1.0000")


def test_f6_the_stage_that_loses_points_is_found(project: Path) -> None:
    asked = ("diagnose", "--testset", "set.jsonl", "--measures", "Contains", "--json", "-q")
    wrong = settings(retrieve__filters="[{field: document_id, values: [docs/pump.md]}]")
    told = json.loads(ragwright(project, *asked, *wrong).stdout)
    assert (told["stage"], told["losses"]) == ("filter", {"filter": 9, "none": 1})
    model = settings(answer__model=f"{read_model(project)}#careless")
    assert json.loads(ragwright(project, *asked, *model).stdout)["stage"] == "generate"


def read_model(project: Path) -> str:
    """Address of the scripted server of the project."""
    return (project / "ragwright.yaml").read_text().split("model: '")[1].split("#")[0]


def test_f7_personas_are_sliced_and_facts_must_not_drop(project: Path) -> None:
    rows = [
        {**row(part), "id": f"{part}-{name}", "persona_name": name}
        for part in PARTS
        for name in ("engineer", "marketing")
    ]
    write_rows(project / "teams.jsonl", rows)
    asked = ("--testset", "teams.jsonl", "--measures", "Contains", "--by", "persona_name")
    slices = read_json(project, "eval", *asked, "-q")["slices"]["persona_name"]
    counts = {name: one["Contains"]["n"] for name, one in slices.items()}
    assert counts == {"engineer": 10, "marketing": 10}
    check = ("diagnose", "--testset", "set.jsonl", "--measures", "TokenF1", "-q", "--personas")
    told = ragwright(project, *check, "engineer,marketing")
    assert lacking(told.stdout, "FactsKept", "No loss of facts is proven for any persona") == []


def test_f8_relaxed_filters_are_one_pass_and_hard_ones_never_relax(tmp_path: Path) -> None:
    texts, labels = {}, {}
    for n in range(16):
        label = {"team": "ab"[n % 2], "topic": "xy"[n // 2 % 2], "year": str(2020 + n // 4 % 2)}
        label |= {"tenant": "one" if n < 12 else "two"}
        front = "".join(f"{key}: {value}\n" for key, value in label.items())
        texts[f"{n}.md"] = f"---\n{front}---\nThe lamp {'lamp ' * n}burns.\n"
        labels[f"docs/{n}.md"] = label
    folder = make_project(tmp_path, texts)
    soft: dict[str, tuple[str, float]] = {"team": ("a", 4), "topic": ("x", 2), "year": ("2021", 1)}
    words = [w for key, (v, weight) in soft.items() for w in ("--soft", f"{key}={v}^{weight:g}")]
    asked = ("retrieve", "lamp", "-k", "20", "--filter", "tenant=one")
    plain = {hit["document_id"]: hit["score"] for hit in read_json(folder, *asked)["hits"]}
    found = read_json(folder, *asked, *words)["hits"]
    expected: list[str] = []
    ladder = [keys for size in range(4) for keys in combinations(soft, size)]
    for keys in sorted(ladder, key=lambda keys: -sum(soft[key][1] for key in keys)):
        step = [d for d in plain if all(labels[d][key] == soft[key][0] for key in keys)]
        expected += [d for d in sorted(step, key=lambda d: -plain[d]) if d not in expected]
    assert [hit["document_id"] for hit in found] == expected
    assert {labels[hit["document_id"]]["tenant"] for hit in found} == {"one"}
    assert all(hit["rung"] is not None for hit in found)
    weights = [hit["rung"]["weight"] for hit in found]
    assert weights == sorted(weights, reverse=True)


def test_f9_stored_replies_are_free_and_budgets_stop(project: Path, server: ScriptedServer) -> None:
    asked = ("--testset", "set.jsonl", "--measures", "Contains", "-q")
    other = settings(prompt__company="Fjord")
    before = server.count
    told = read_json(project, "eval", *asked, *other, "--dry-run")
    assert told["calls"]["expected"] == 10
    assert told["cost"]["expected"] > 0
    assert server.count == before, "the price is known before the run"
    capped = ("--max-cost", "0.002", "--json", "-j", "1")
    stopped = ragwright(project, "eval", *asked, *other, *capped, code=None)
    made = server.count - before
    assert stopped.returncode == 101
    assert 0 < made < 10
    done = read_json(project, "eval", *asked, *other, "--resume")
    assert done["measures"]["Contains"]["n"] == 10
    assert server.count - before == 10, "what was paid is not paid again"
    read_json(project, "eval", *asked, *other)
    assert server.count - before == 10


def test_f10_a_judged_gate_counts_once_people_checked_the_judge(tmp_path: Path) -> None:
    def judge(request: ServerRequest) -> str:
        wrong = "It is wrong" in request.prompt
        return json.dumps({"reasoning": "so", "score": 1 if wrong else 5})

    rows: list[dict[str, Any]] = [
        {"id": str(n), "question": f"What is {n}?", "passage": f"It is right {n}.",
         "response": f"It is {'right' if n % 3 else 'wrong'} {n}.", "human": 4 if n % 3 else 1}
        for n in range(24)
    ]  # fmt: skip
    write_rows(tmp_path / "people.jsonl", rows)
    given = [
        {"id": r["id"], "user_input": r["question"], "response": r["response"],
         "retrieved_contexts": [r["passage"]]}
        for r in rows
    ]  # fmt: skip
    write_rows(tmp_path / "answers.jsonl", given)
    with ScriptedServer(judge) as server:
        (tmp_path / "ragwright.yaml").write_text(
            f"sources: []\njudge: {{model: '{server.url}#judge'}}\n"
        )
        ragwright(tmp_path, "score", "answers.jsonl", "--measures", "Faithfulness", "-q")
        gate = ("gate", "latest", "--rule", "Faithfulness>=2", "--calibrated")
        assert "passport" in ragwright(tmp_path, *gate, code=101).stdout
        columns = ("human=label.faithfulness(1..4)", "passage=retrieved_contexts")
        maps = [word for column in columns for word in ("--map", column)]
        asked = ("people.jsonl", *maps, "--judge", f"{server.url}#judge")
        asked = (*asked, "--measures", "Faithfulness,KPrecision", "-q")
        told = read_json(tmp_path, "passport", *asked)
        # H1: agreement by task, cost, and whether a free measure does as well
        judged = told["judges"][f"Faithfulness by {server.url}#judge"]["faithfulness"]
        assert (judged["rows"], judged["spearman"]["value"]) == (24, 1)
        assert judged["versus"].keys() == {"KPrecision"}
        assert told["about"]["KPrecision"]["cost_100"] == 0
        assert "passport on people (faithfulness" in ragwright(tmp_path, *gate).stdout
