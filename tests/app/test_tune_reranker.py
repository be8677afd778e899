"""`tune reranker` on a tiny model, kept only where it wins."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served import served
from tiny_models import ANIMALS, COLOURS, write_embedder, write_project

from ragwright.models import Models

pytestmark = [pytest.mark.slow, pytest.mark.needs_torch]

RIGHT = ("--testset", "testsets/right.jsonl")
SHORT = ("--epochs", "1", "--batch", "16", "--tokens", "40", "-q")
LEARNS = ("--epochs", "4", "--batch", "16", "--tokens", "24", "--rate", "5e-3", "-q")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """A tiny model is trained faster by one thread than by two that wait for each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts with an animal and a colour; questions name both, and random vectors find nothing."""
    root = tmp_path_factory.mktemp("taught")
    shutil.copytree(write_embedder(tmp_path_factory.mktemp("tiny")), root / "tiny")
    gc.freeze()  # each training collects garbage, and would look through all of torch
    write_project(root)
    return root


@pytest.fixture(scope="module")
def versions(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts on each thing, found by the same keywords: the one with "for" answers."""
    root = tmp_path_factory.mktemp("versions")
    shutil.copytree(project / "tiny", root / "tiny")
    (root / "docs").mkdir()
    (root / "ragwright.yaml").write_text("sources: [docs]\n")
    rows = []
    for animal in ANIMALS:
        for colour in COLOURS[:6]:
            for word in ("for", "as"):
                text = f"{colour} {animal} {word} {word} {word}"
                (root / f"docs/{animal}-{colour}-{word}.txt").write_text(text)
            gold = f"docs/{animal}-{colour}-for.txt"
            rows.append({"user_input": f"{colour} {animal}", "reference_ids": [gold]})
    (root / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(root, "ingest", "-q")
    return root


def tuned(root: Path, part: str, *words: str, code: int | None = 0) -> Any:
    done = ragwright(root, "tune", part, *words, "--json", code=code)
    return json.loads(done.stdout)


def promoted_served_and_withdrawn(
    root: Path, testset: str, question: str, channel: str, settings: Sequence[str]
) -> None:
    """Promote these settings over those of the project, serve them, and return to the former."""

    def measured(*words: str) -> str:
        words = ("--testset", testset, "--measures", "MRR@10", "--retrieval-only", *words)
        return str(json.loads(ragwright(root, "eval", *words, "--json").stdout)["run"])

    def found(*words: str) -> list[str]:
        done = ragwright(root, "retrieve", question, "--served", "--json", *words)
        return list(json.loads(done.stdout)["hits"][0]["channels"])

    auto = ("--set", "retrieve.search=auto")
    rule = ("--gate", "MRR@10>=0.01", "--least", "1", "--rules-alone")
    ragwright(root, "promote", measured(*auto), *rule)
    assert channel not in found()
    use = [*auto, *(word for setting in settings for word in ("--set", setting))]
    ragwright(root, "promote", measured(*use), *rule)
    assert channel in found()
    answered = ragwright(root, "ask", question, "--served", "--trace", "--json").stdout
    assert channel in json.dumps(json.loads(answered)["trace"]).lower()
    with served(root, own=False) as running:
        reply = running.http.post("/v1/retrieve", json={"query": question}).json()
        assert channel in reply["hits"][0]["channels"]
        ragwright(root, "promote", "--back", "--reason", "a test")
    assert channel not in found()


def test_a_reranker_that_wins_is_used_by_one_line(versions: Path) -> None:
    rows = ("--testset", "rows.jsonl", "--base", "st:tiny")
    verdict = tuned(versions, "reranker", *rows, *LEARNS, "-o", "models/order")
    held = verdict["held_out"]
    assert held["verdict"] == "better"
    assert held["mean_b"] > held["mean_a"]
    assert verdict["setting"] == "retrieve.rerank.model"
    assert verdict["value"] == "st:models/order"
    weight = verdict["beside"]["search_weight"]
    table = {row["weight of the search"]: row for row in verdict["search_weight"]}
    assert table[weight]["unseen MRR@10"] == pytest.approx(verdict["training"]["after"])
    card = (versions / "models/order/README.md").read_text()
    assert "A reranking model" in card
    assert f"{held['mean_b']:.3f}" in card
    # The line that the command prints is a line of the project file.
    lines = ("rerank.model=st:models/order", f"rerank.search_weight={weight}")
    use = [word for line in lines for word in ("--set", f"retrieve.{line}")]
    hits = json.loads(ragwright(versions, "retrieve", "blue dog", "--json", *use).stdout)["hits"]
    assert hits[0]["document_id"].endswith("-for.txt")
    assert "rerank" in hits[0]["channels"]
    promoted_served_and_withdrawn(versions, "rows.jsonl", "blue dog", "rerank", use[1::2])
    passages = ["blue dog for for for", "blue dog as as as", "red cat for " * 60]
    scores = Models(root=versions).reranker("st:models/order").score("blue dog", passages)
    assert scores[0] > scores[1]


def test_the_line_to_use_it_names_the_weight_of_the_search(project: Path) -> None:
    loud = [word for word in SHORT if word != "-q"]
    words = ("--testset", "testsets/wrong.jsonl", *loud, "--keep")
    shown = ragwright(project, "tune", "reranker", *words, code=100)
    assert "retrieve: {rerank: {model: st:models/unproven-reranker-" in shown.stderr
    assert "search_weight: " in shown.stderr
    assert "# not proven better" in shown.stderr
    (kept,) = (project / "models").glob("unproven-reranker-*")
    use = ("--set", f"retrieve.rerank.model=st:models/{kept.name}")
    checks = json.loads(ragwright(project, "doctor", "--json", *use).stdout)["checks"]
    assert any("not proven better than the search without it" in c["text"] for c in checks)


def test_random_gold_is_refused_and_no_model_is_left(project: Path) -> None:
    before = {*(project / "models").glob("*")}
    words = ("--testset", "testsets/wrong.jsonl", *SHORT)
    shown = ragwright(project, "tune", "reranker", *words, code=100)
    assert "no reranker was written" in shown.stdout
    assert {*(project / "models").glob("*")} == before
    assert not [*(project / ".ragwright/cache/training").glob("*")]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--testset", "testsets/few.jsonl"), "training needs 20"),
        (("--set", "embed.model=", "--set", "retrieve.search=auto"), "no model is set to start"),
        ((*RIGHT, "--base", "st:nowhere"), "cannot be trained to score pairs"),
        ((*RIGHT, "--base", "openai:text-embedding-3-small"), "a server holds its weights"),
        ((*RIGHT, "-o", "docs"), "name another folder"),
        (("--from-corpus", "--from", "testset", *RIGHT), "from the documents alone"),
    ],
)
def test_what_no_reranker_can_learn_from_says_why(
    project: Path, words: tuple[str, ...], reason: str
) -> None:
    assert reason in ragwright(project, "tune", "reranker", *words, "-q", code=1).stderr


def test_an_empty_confirm_split_is_refused_before_training(project: Path) -> None:
    rows = [
        {"user_input": f"the red dog {n}", "reference_ids": ["docs/dog-red.txt"], "split": "tune"}
        for n in range(30)
    ]
    (project / "testsets/one.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("--testset", "testsets/one.jsonl", *SHORT)
    assert "confirm split is empty" in ragwright(project, "tune", "reranker", *words, code=1).stderr


def test_a_model_of_word_vectors_cannot_score_pairs(project: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    words = (*RIGHT, "--base", f"static:{tmp_path}")
    assert "word vectors" in ragwright(project, "tune", "reranker", *words, code=1).stderr


def test_a_corpus_trains_and_the_whole_testset_decides(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "tiny", tmp_path / "tiny")
    (tmp_path / "ragwright.yaml").write_text((project / "ragwright.yaml").read_text())
    (tmp_path / "docs").mkdir()
    for number in range(60):
        (tmp_path / f"docs/{number}.md").write_text(
            f"# Error E{100 + 7 * number}\n\nThe {ANIMALS[number % 10]} of the number {number} "
            f"stopped, since its {COLOURS[number % 8]} belt left the wheel {number} behind it.\n"
        )
    real = [
        {"user_input": f"belt of wheel {number}", "reference_ids": [f"docs/{number}.md"]}
        for number in range(8)
    ]
    (tmp_path / "real.jsonl").write_text("\n".join(map(json.dumps, real)))
    ragwright(tmp_path, "ingest", "-q")
    few = ("--from-corpus", "--most", "40", *SHORT)
    words = (*few, "--testset", "real.jsonl", "--from", "glossary,headings")
    verdict = tuned(tmp_path, "reranker", *words, "--keep", code=None)
    assert verdict["held_out"]["n"] == len(real)
    assert {row["pairs from"] for row in verdict["pairs"]} <= {"glossary", "headings"}
    assert any("their documents answer held-out questions" in note for note in verdict["notes"])
    alone = tuned(tmp_path, "reranker", *few, "--keep", code=None)
    assert any("not confirmed on questions of people" in note for note in alone["notes"])
    card = (tmp_path / alone["written"] / "README.md").read_text()
    assert "held-out questions: made from the documents too" in card
