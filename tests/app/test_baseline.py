"""`ragwright baseline`: distances of an experiment's answers beside those of given pairs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright.experiment import distance_shift
from ragwright.testing import Reply, ScriptedServer, ServerRequest

FACTS = {
    "pump": "oil the pump every spring before the frost leaves",
    "valve": "close the valve slowly until the red mark shows",
    "rotor": "balance the rotor on the bench with two weights",
    "flange": "tighten the flange bolts crosswise by hand first",
    "gasket": "replace the gasket whenever the cover was removed",
    "piston": "clean the piston with paraffin and a soft brush",
    "bearing": "grease the bearing after four hundred running hours",
    "nozzle": "rinse the nozzle in warm water for ten minutes",
}


def question(word: str) -> str:
    return f"What must be done with the {word}?"


def reader(request: ServerRequest) -> str | Reply:
    """Answers from the passages it is shown; without them it makes something up."""
    if "messages" not in request.body:
        return Reply()
    text = "\n".join(str(message["content"]) for message in request.body["messages"])
    asked = re.findall(r"with the (\w+)\?", text)[-1]
    said = re.findall(rf"You must ([^.]*\b{asked}\b[^.]*)\.", text)
    return f"{said[0]} [1]." if said else "Nobody ever knows such secret matters."


def project(tmp_path: Path, server: ScriptedServer, **more: str) -> Path:
    text = "".join(f"## The {word}\n\nYou must {fact}.\n\n" for word, fact in FACTS.items())
    settings = (
        f"models: {{scripted: {{base: '{server.url}'}}}}\n"
        "chunk: {by: headings, size: 60}\nretrieve: {top_k: 2, search: keyword}\n"
        "embed: {model: 'scripted:words', dimensions: 512}\nanswer: {model: 'scripted:reader'}\n"
    )
    folder = MakeProject(tmp_path)(settings, **{"manual.md": text})
    rows = [
        {
            "id": word,
            "user_input": question(word),
            "reference": more.get(word, f"{fact}."),
            "reference_contexts": [f"You must {fact}."],
        }
        for word, fact in FACTS.items()
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(folder, "ingest", "-q")
    return folder


def compared(folder: Path, *more: str) -> dict[str, object]:
    done = ragwright(folder, "baseline", "--testset", "pairs.jsonl", "--json", *more)
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_answers_like_the_pairs_are_about_equal(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        found = compared(project(tmp_path, server))
    assert (found["outcome"], found["n"]) == ("about equal", 8)
    sets = found["sets"]
    assert isinstance(sets, dict)
    assert list(sets) == ["baseline", "experiment"]
    for numbers in sets.values():
        assert numbers["echoed"] == pytest.approx(0, abs=1e-5)
        assert numbers["echoed"] < numbers["mean"] < numbers["shuffled"]
        assert 0 < numbers["random_chunk"] < 1


@pytest.mark.slow
def test_an_experiment_that_answers_worse_is_larger(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        found = compared(folder, "--set", "answer.closed_book=true")
        shown = ragwright(
            folder, "baseline", "--testset", "pairs.jsonl", "--set", "answer.closed_book=true"
        ).stdout
    assert found["outcome"] == "larger"
    assert "S_e against S_b: larger." in shown
    assert "farther from their questions" in shown


def test_answers_that_repeat_the_question_are_smaller_and_echoed_shows_it(tmp_path: Path) -> None:
    def echo(request: ServerRequest) -> str | Reply:
        if "messages" not in request.body:
            return Reply()
        text = str(request.body["messages"][-1]["content"])
        asked = re.findall(r"What must be done with the \w+", text)[-1]
        return f"{asked} [1]."

    with ScriptedServer(echo) as server:
        found = compared(project(tmp_path, server))
    assert found["outcome"] == "smaller"
    sets = found["sets"]
    assert isinstance(sets, dict)
    assert sets["experiment"]["mean"] == pytest.approx(sets["experiment"]["echoed"], abs=0.05)
    notes = found["notes"]
    assert isinstance(notes, list)
    assert any("the answers repeat the questions' words" in note for note in notes)


@pytest.mark.slow
def test_chunker_embedder_and_prompt_can_change_and_the_pairs_are_embedded_again(
    tmp_path: Path,
) -> None:
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        changed = compared(
            folder,
            *("--set", "chunk.by=tokens", "--set", "chunk.size=20", "--set", "chunk.overlap=0"),
            *("--set", "embed.model=scripted:others", "--set", "prompt.without=[role]"),
        )
        models = {request.body["model"] for request in server.requests if "input" in request.body}
        again = json.loads(ragwright(folder, "retrieve", question("pump"), "--json").stdout)
    assert changed["embedder"] == "scripted:others"
    assert changed["changed"] == [
        "chunk.by=tokens",
        "chunk.size=20",
        "chunk.overlap=0",
        "embed.model=scripted:others",
        "prompt.without=[role]",
    ]
    assert "others" in models
    # the project's own index is as it was
    assert again["hits"][0]["text"].count("You must") == 1


@pytest.mark.slow
def test_every_pair_is_written_with_its_vectors_and_distance(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        ragwright(folder, "baseline", "--testset", "pairs.jsonl", "-o", "kept.jsonl")
    kept = [json.loads(line) for line in (folder / "kept.jsonl").read_text().splitlines()]
    assert [(pair["set"], pair["id"]) for pair in kept] == [
        (name, word) for name in ("baseline", "experiment") for word in FACTS
    ]
    for pair in kept:
        one, two = np.array(pair["question_vector"]), np.array(pair["answer_vector"])
        assert pair["distance"] == pytest.approx(1 - one @ two, abs=1e-4)
    assert kept[0]["passages"] == [f"You must {FACTS['pump']}."]
    assert kept[0]["answer"] == f"{FACTS['pump']}."


@pytest.mark.slow
def test_with_and_without_the_chunk_are_distances_with_null_baselines(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        found = compared(project(tmp_path, server), "--context")
    sets, context = found["sets"], found["context"]
    assert isinstance(sets, dict)
    assert isinstance(context, dict)
    assert list(sets) == ["baseline", "experiment", "with_chunk", "without_chunk"]
    assert sets["with_chunk"]["mean"] < sets["without_chunk"]["mean"]
    assert sets["without_chunk"]["shuffled"] > 0
    assert context["outcome"] == "smaller"


@pytest.mark.slow
def test_a_dry_run_calls_nothing_and_counts_the_answers(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        before = len(server.requests)
        ahead = compared(folder, "--context", "--dry-run", "--set", "chunk.by=sentences")
        assert len(server.requests) == before
    calls = ahead["calls"]
    assert isinstance(calls, dict)
    assert calls["expected"] == 24


def test_without_an_embedding_model_the_message_says_what_to_set(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    rows = [{"user_input": f"Question {n}?", "reference": "An answer."} for n in range(3)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = ragwright(folder, "baseline", "--testset", "pairs.jsonl", code=1)
    assert "distances need an embedding model" in done.stderr
    assert "--set embed.model=" in done.stderr


@pytest.mark.slow
def test_forgetting_a_document_removes_its_pairs(tmp_path: Path) -> None:
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        compared(folder)
        hit = json.loads(ragwright(folder, "retrieve", "pump", "--json").stdout)["hits"][0]
        ragwright(folder, "forget", hit["document_id"])
    stored = b"".join(p.read_bytes() for p in (folder / ".ragwright" / "data").glob("runs*"))
    assert b"paraffin" not in stored


def test_outcomes_follow_interval_and_margin() -> None:
    base = {str(n): 0.5 + n / 1000 for n in range(40)}
    same = {key: value + (0.001 if int(key) % 2 else -0.001) for key, value in base.items()}
    noisy = {key: value + (0.4 if int(key) % 2 else -0.39) for key, value in base.items()}
    assert distance_shift(base, same, 0.05).outcome == "about equal"
    assert distance_shift(base, {k: v + 0.2 for k, v in base.items()}, 0.05).outcome == "larger"
    assert distance_shift(base, {k: v - 0.2 for k, v in base.items()}, 0.05).outcome == "smaller"
    unsure = distance_shift(base, noisy, 0.05)
    assert unsure.outcome == "undecided"
    assert unsure.more is not None
    assert unsure.more > 100
    useless = distance_shift(base, same, 0.0)
    assert useless.outcome == "undecided"
    assert "another embedding model" in useless.reason
    assert distance_shift(base, {}, 0.05).difference is None


def pairs_file(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    rows = [
        {"id": word, "user_input": question(word), "reference": f"{fact}."}
        for word, fact in FACTS.items()
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_pairs_are_scored_without_a_project_by_the_model_of_the_command_line(
    tmp_path: Path,
) -> None:
    pairs_file(tmp_path)
    words = ("score", "pairs.jsonl", "--measures", "QADistance", "--json")
    with ScriptedServer("-") as server:
        model = f"embed.model={server.url}#words"
        done = ragwright(tmp_path, *words, "--set", model)
    found = json.loads(done.stdout)
    assert found["measures"]["QADistance"]["n"] == 8
    assert found["baselines"]["QADistance, answers shuffled"]["n"] == 8
    assert any("those of the reference answers" in note for note in found["notes"])
    refused = ragwright(tmp_path, *words, "--set", "retrieve.top_k=3", code=1)
    assert "retrieve.top_k means nothing without a project" in refused.stderr


@pytest.mark.slow
def test_in_a_project_the_distance_takes_its_embedding_model(tmp_path: Path) -> None:
    with ScriptedServer("-") as server:
        folder = MakeProject(tmp_path)()
        pairs_file(folder)
        words = ("score", "pairs.jsonl", "--measures", "QADistance", "--json")
        done = ragwright(folder, *words, "--set", f"embed.model={server.url}#words")
    assert json.loads(done.stdout)["measures"]["QADistance"]["n"] == 8


def test_beside_other_measures_a_reference_is_never_taken_for_the_answer(tmp_path: Path) -> None:
    pairs_file(tmp_path)
    words = ("score", "pairs.jsonl", "--measures", "QADistance, ExactMatch", "--json")
    with ScriptedServer("-") as server:
        done = ragwright(tmp_path, *words, "--set", f"embed.model={server.url}#words", code=101)
    for numbers in json.loads(done.stdout)["measures"].values():
        assert (numbers["n"], numbers["states"]["not_applicable"]) == (0, 8)


@pytest.mark.slow
def test_both_sets_are_over_the_pairs_that_were_answered(tmp_path: Path) -> None:
    def partly(request: ServerRequest) -> str | Reply:
        if "messages" not in request.body:
            return Reply()
        text = str(request.body["messages"][-1]["content"])
        asked = re.findall(r"with the (\w+)\?", text)[-1]
        if asked in ("pump", "valve", "rotor"):
            return "The passages do not answer this question."
        return reader(request)

    with ScriptedServer(partly) as server:
        folder = project(tmp_path, server)
        found = compared(folder, "--set", "judge.embedder=scripted:words")
    sets = found["sets"]
    assert isinstance(sets, dict)
    assert sets["baseline"]["n"] == sets["experiment"]["n"] == found["n"]
    assert found["n"] == 5
    notes = found["notes"]
    assert isinstance(notes, list)
    assert any("both over the 5 of 8 pairs" in note for note in notes)
    assert found["changed"] == []


@pytest.mark.slow
def test_scores_of_distances_show_their_baselines_in_the_table_and_the_document(
    tmp_path: Path,
) -> None:
    rows = [
        {"user_input": question(word), "response": fact, "retrieved_contexts": [f"You must {fact}"]}
        for word, fact in FACTS.items()
    ]
    scoring = ("score", "rows.jsonl", "--measures", "QADistance")
    with ScriptedServer(reader) as server:
        folder = project(tmp_path, server)
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        table = ragwright(folder, *scoring).stdout
        document = json.loads(ragwright(folder, *scoring, "--json").stdout)
    assert "QADistance, question echoed (0-2" in table
    assert f"rank of the own answer of {len(FACTS)}" in table
    assert list(document["measures"]) == ["QADistance"]
    assert document["baselines"]["QADistance, answers shuffled"]["n"] == len(FACTS)
