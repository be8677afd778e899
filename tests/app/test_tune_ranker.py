"""`tune ranker`: a learned order of the hits, kept only where it wins."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ragwright
from served import served

pytestmark = pytest.mark.needs_torch

# Every code occurs in two documents: a short note that repeats it, which BM25 ranks first, and the
# long page that answers.
FILLER = "the device stops and waits until somebody reads this page and presses the button again"
TRAIN = ("tune", "ranker", "--testset")
USE = ("--set", "retrieve.ranker=rankers/r.json")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranker")
    (root / "docs").mkdir()
    (root / "testsets").mkdir()
    (root / "ragwright.yaml").write_text("sources: [docs]\n")
    right: list[dict[str, Any]] = []
    random: list[dict[str, Any]] = []
    toss = np.random.default_rng(0).integers(0, 2, 160)
    for number in range(160):
        code = f"E{1000 + number}"
        (root / f"docs/{number}-note.txt").write_text(f"{code} {code} see page")
        (root / f"docs/{number}-page.txt").write_text(f"{code}: {FILLER} {number} {FILLER}")
        row: dict[str, Any] = {"id": f"r{number}", "user_input": f"what does {code} mean"}
        row["metadata"] = {"split": "confirm" if number % 2 else "tune"}
        right.append({**row, "reference_ids": [f"docs/{number}-page.txt"]})
        kind = ("page", "note")[toss[number]]
        random.append({**row, "reference_ids": [f"docs/{number}-{kind}.txt"]})
    for name, rows in (("right", right), ("random", random), ("few", right[:20])):
        (root / f"testsets/{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(root, "ingest")
    made = ragwright(root, *TRAIN, "testsets/right.jsonl", "-o", "rankers/r.json", "--json")
    (root / "made.json").write_text(made.stdout)
    return root


@pytest.mark.slow
def test_a_ranker_that_wins_on_held_out_questions_is_written(project: Path) -> None:
    made = json.loads((project / "made.json").read_text())
    assert made["part"] == "ranker"
    assert made["held_out"]["verdict"] == "better"
    assert made["held_out"]["n"] == 80
    assert made["held_out"]["mean_b"] > made["held_out"]["mean_a"] + 0.4
    assert made["training"]["after"] > made["training"]["before"] + 0.4
    # BM25 knows the length of a text as well, so either explains these pages.
    gains = {one["feature"]: one["share of gain"] for one in made["features"]}
    assert sum(gains.values()) == pytest.approx(1)
    assert (project / "rankers/r.json").is_file()


def test_search_answers_and_evaluations_use_it(project: Path) -> None:
    query = "what does E1007 mean"
    plain, ranked = (
        json.loads(ragwright(project, "retrieve", query, "--json", *more).stdout)["hits"]
        for more in ((), USE)
    )
    assert plain[0]["source"] == "docs/7-note.txt"
    assert ranked[0]["source"] == "docs/7-page.txt"
    assert ranked[0]["channels"]["search"]["rank"] == 2
    assert ranked[0]["channels"]["ranker"]["rank"] == 1
    answer = json.loads(ragwright(project, "ask", query, "--json", *USE).stdout)["answers"][0]
    assert answer["hits"][0]["source"] == "docs/7-page.txt"
    evaluate = ("eval", "--testset", "testsets/right.jsonl", "--measures", "MRR@10", "--json")
    means = [
        json.loads(ragwright(project, *evaluate, "--retrieval-only", *more).stdout)["measures"]
        for more in ((), USE)
    ]
    assert means[1]["MRR@10"]["mean"] > means[0]["MRR@10"]["mean"] + 0.4


def test_the_explanation_shows_what_each_feature_added(project: Path) -> None:
    query = ("retrieve", "what does E1007 mean", "--explain", *USE)
    shown = json.loads(ragwright(project, *query, "--json").stdout)
    first = shown["hits"][0]
    added = shown["explanation"]["ranked"][first["chunk_id"]]
    second = shown["explanation"]["ranked"][shown["hits"][1]["chunk_id"]]
    difference = sum(share for _, share in added.values()) - sum(s for _, s in second.values())
    assert difference == pytest.approx(first["score"] - shown["hits"][1]["score"], abs=1e-3)
    assert "ranker: " in ragwright(project, *query).stdout


def test_a_ranker_of_random_gold_is_refused_and_nothing_is_written(project: Path) -> None:
    before = sorted((project / "rankers").iterdir())
    done = ragwright(project, *TRAIN, "testsets/random.jsonl", "-o", "rankers/x.json", code=100)
    assert "no ranker was written" in done.stdout
    assert sorted((project / "rankers").iterdir()) == before


def test_too_few_questions_say_how_many_there_are(project: Path) -> None:
    done = ragwright(project, *TRAIN, "testsets/few.jsonl", code=1)
    assert "10 training questions" in done.stderr
    assert "needs 30" in done.stderr


def test_a_training_question_that_finds_nothing_counts_as_missed(project: Path) -> None:
    rows = (project / "testsets/random.jsonl").read_text()
    lost = {"id": "lost", "user_input": "zzzz", "reference_ids": ["docs/2-page.txt"]}
    text = f"{rows}\n{json.dumps({**lost, 'metadata': {'split': 'tune'}})}"
    (project / "testsets/lost.jsonl").write_text(text)
    done = ragwright(project, *TRAIN, "testsets/lost.jsonl", "--json", code=100)
    assert json.loads(done.stdout)["training"]["questions"] == 81


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("one document", "share their gold"),
        ("no held-out gold", "no held-out question is scored"),
    ],
)
def test_testsets_that_cannot_decide_say_why(project: Path, change: str, said: str) -> None:
    right = project / "testsets/right.jsonl"
    rows = [json.loads(line) for line in right.read_text().splitlines()]
    for row in rows:
        if change == "one document":
            row["user_input"] = "what does E1007 mean"
            row["reference_ids"] = ["docs/7-page.txt"]
        elif row["metadata"]["split"] == "confirm":
            del row["reference_ids"]
    (project / "testsets/changed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = ragwright(project, *TRAIN, "testsets/changed.jsonl", code=1)
    assert said in done.stderr
    assert not list((project / ".ragwright/cache").glob("ranker-*.json"))


@pytest.mark.slow
def test_a_folder_whose_name_means_something_in_yaml_can_be_tuned(
    project: Path, tmp_path: Path
) -> None:
    root = tmp_path / "see: C #1"
    shutil.copytree(project, root)
    ragwright(root, *TRAIN, "testsets/right.jsonl", "-o", "rankers/again.json", "--json")
    assert (root / "rankers/again.json").is_file()


def _damaged(text: str, change: str) -> str:
    made = json.loads(text)
    if change == "nan":
        made["trees"]["value"][-1] = float("nan")
    elif change == "version":
        made["ranker"] = 0
    elif change == "loop":
        made["trees"]["left"][0] = 0
    elif change == "mode":
        made["mode"] = "dense"
    elif change == "short":
        made["trees"]["left"].pop()
    elif change == "text":
        return text[:100]
    elif change == "deep":
        return "[" * 200_000
    elif change == "list":
        return "[1, 2]"
    return json.dumps(made)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("none", "no such ranker"),
        ("nan", "not a finite number"),
        ("version", "features of version 0"),
        ("loop", "points outside"),
        ("short", "different lengths"),
        ("text", "not a ranker"),
        ("list", "not a ranker"),
        ("deep", "not a ranker"),
        ("mode", "made for another embedding model"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(project: Path, change: str, said: str) -> None:
    name = f"{change}.json"
    if change != "none":
        text = (project / "rankers/r.json").read_text()
        (project / name).write_text(_damaged(text, change))
    if change == "mode":
        made = json.loads((project / name).read_text())
        made["embedder"] = "another"
        (project / name).write_text(json.dumps(made))
    over = ("--set", f"retrieve.ranker={name}")
    found = ragwright(project, "retrieve", "what does E1007 mean", *over, code=1).stderr
    assert said in found
    assert name in found


def test_a_ranker_in_use_is_not_trained_upon(project: Path) -> None:
    found = ragwright(project, *TRAIN, "testsets/right.jsonl", *USE, code=1).stderr
    assert "retrieve.ranker is rankers/r.json already" in found


@pytest.mark.slow
@pytest.mark.parametrize("search", ["hybrid", "dense"])
def test_a_ranker_of_vectors_orders_hits_and_answers_of_the_server_too(
    project: Path, tmp_path: Path, search: str
) -> None:
    for name in ("docs", "testsets"):
        shutil.copytree(project / name, tmp_path / name)
    settings = (
        "sources: [docs]\nembed: {model: 'own:words'}\n"
        "models: {'own:words': {backend: 'scripted_embedders:Words'}}\n"
    )
    search_by = f"retrieve: {{search: {search}}}\n"
    (tmp_path / "ragwright.yaml").write_text(settings + search_by)
    ragwright(tmp_path, "ingest")
    train = (*TRAIN, "testsets/right.jsonl", "-o", "rankers/r.json", "--json")
    made = json.loads(ragwright(tmp_path, *train).stdout)
    assert made["held_out"]["verdict"] == "better"
    assert json.loads((tmp_path / "rankers/r.json").read_text())["mode"] == search
    query = "what does E1007 mean"
    used = ("retrieve", query, "--explain", "--json", *USE)
    shown = json.loads(ragwright(tmp_path, *used).stdout)
    assert shown["hits"][0]["source"] == "docs/7-page.txt"
    with_ranker = f"retrieve: {{search: {search}, ranker: rankers/r.json}}\n"
    (tmp_path / "ragwright.yaml").write_text(settings + with_ranker)
    answer = json.loads(ragwright(tmp_path, "ask", query, "--json").stdout)["answers"][0]
    with served(tmp_path) as running:
        reply = running.http.post("/v1/retrieve", json={"query": query}).json()
    ranked = [hit["source"] for hit in shown["hits"]]
    assert [hit["source"] for hit in reply["hits"]] == ranked
    assert [hit["source"] for hit in answer["hits"]] == ranked


@pytest.mark.slow
def test_a_ranker_learns_from_all_channels_and_is_refused_without_them(
    project: Path, tmp_path: Path
) -> None:
    for name in ("docs", "testsets"):
        shutil.copytree(project / name, tmp_path / name)
    for name in ("scripted_sparse.py", "scripted_late.py"):
        shutil.copy(Path(__file__).parents[1] / "projects" / name, tmp_path)
    (tmp_path / "ragwright.yaml").write_text(
        "sources: [docs]\nsparse: {model: 'own:sparse'}\nlate: {model: 'own:late'}\n"
        "models:\n  'own:sparse': {backend: 'scripted_sparse:Stems'}\n"
        "  'own:late': {backend: 'scripted_late:Stems'}\n"
        "retrieve: {channels: [keyword, sparse, late]}\n"
    )
    ragwright(tmp_path, "ingest")
    train = (*TRAIN, "testsets/right.jsonl", "-o", "rankers/r.json", "--json")
    made = json.loads(ragwright(tmp_path, *train).stdout)
    assert made["held_out"]["verdict"] == "better"
    ranker = json.loads((tmp_path / "rankers/r.json").read_text())
    assert (ranker["mode"], sorted(ranker["encoders"])) == ("hybrid", ["late", "sparse"])
    query = ("retrieve", "what does E1007 mean", *USE)
    shown = json.loads(ragwright(tmp_path, *query, "--explain", "--json").stdout)
    assert shown["hits"][0]["source"] == "docs/7-page.txt"
    added = shown["explanation"]["ranked"][shown["hits"][0]["chunk_id"]]
    assert {"sparse", "sparse_rank", "late", "late_rank"} <= set(added)
    fewer = ("--set", "retrieve.channels=[keyword, sparse]")
    refused = ragwright(tmp_path, *query, *fewer, code=1).stderr
    assert "trained with late, sparse, and this search uses sparse" in refused


def test_two_rankers_at_one_path_are_two_configurations(project: Path) -> None:
    evaluate = ("eval", "--testset", "testsets/right.jsonl", "--measures", "MRR@10", "--json")
    over = ("--retrieval-only", "--set", "retrieve.ranker=rankers/changing.json")
    text = (project / "rankers/r.json").read_text()
    manifests = []
    for seed in (0, 1):
        made = json.loads(text)
        made["card"]["seed"] = seed
        (project / "rankers/changing.json").write_text(json.dumps(made))
        ragwright(project, *evaluate, *over)
    changed = json.loads(ragwright(project, "compare", "latest~1", "latest", "--json").stdout)
    manifests = [one["key"] for one in changed["settings"]]
    assert any("ranker" in key for key in manifests)
    (project / "rankers/changing.json").unlink()
