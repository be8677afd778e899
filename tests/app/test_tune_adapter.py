"""`tune adapter`: a linear adapter of query vectors, kept only where it wins."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import ragwright

SETTINGS = """
sources: [docs]
embed: {model: "own:mirrored"}
models:
  "own:mirrored": {backend: "scripted_embedders:Mirrored"}
  "own:other": {backend: "scripted_embedders:Other"}
retrieve: {search: dense}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tune")
    (root / "docs").mkdir()
    (root / "testsets").mkdir()
    (root / "ragwright.yaml").write_text(SETTINGS)
    right: list[dict[str, object]] = []
    wrong: list[dict[str, object]] = []
    shuffled = np.random.default_rng(0).permutation(200)
    for number in range(200):
        (root / f"docs/{number}.txt").write_text(f"n{number}")
        row: dict[str, object] = {"id": f"r{number}", "user_input": f"q{number}"}
        row["metadata"] = {"split": "confirm" if number % 2 else "tune"}
        right.append({**row, "reference_ids": [f"docs/{number}.txt"]})
        wrong.append({**row, "reference_ids": [f"docs/{shuffled[number]}.txt"]})
    for name, rows in (("right", right), ("wrong", wrong), ("few", right[:20])):
        (root / f"testsets/{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(root, "ingest")
    return root


@pytest.mark.slow
def test_an_adapter_that_wins_on_held_out_questions_is_written_and_used(project: Path) -> None:
    done = ragwright(
        project,
        "tune",
        "adapter",
        "--testset",
        "testsets/right.jsonl",
        "-o",
        "adapters/a.npz",
        "--json",
    )
    made = json.loads(done.stdout)
    assert made["held_out"]["verdict"] == "better"
    assert made["held_out"]["n"] == 100
    assert made["training"]["after"] > made["training"]["before"] + 0.3
    first = ragwright(project, "retrieve", "q7", "--json")
    moved = ragwright(
        project, "retrieve", "q7", "--json", "--set", "retrieve.adapter=adapters/a.npz"
    )
    sources = [json.loads(one.stdout)["hits"][0]["source"] for one in (first, moved)]
    assert sources[1] == "docs/7.txt"
    assert sources[0] != "docs/7.txt"


def test_an_adapter_of_random_gold_is_refused(project: Path) -> None:
    before = sorted((project / "adapters").glob("*")) if (project / "adapters").is_dir() else []
    done = ragwright(
        project,
        "tune",
        "adapter",
        "--testset",
        "testsets/wrong.jsonl",
        "-o",
        "adapters/b.npz",
        code=100,
    )
    assert "no adapter" in done.stdout
    after = sorted((project / "adapters").glob("*")) if (project / "adapters").is_dir() else []
    assert before == after


def test_follow_ups_are_left_out_of_training_with_a_note(project: Path) -> None:
    lines = (project / "testsets/wrong.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows[:10:2]:  # of the tune split
        row["history"] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "n"}]
    (project / "testsets/talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = ragwright(
        project, "tune", "adapter", "--testset", "testsets/talks.jsonl", "--json", code=100
    )
    notes = json.loads(done.stdout)["notes"]
    assert "5 of 100 training questions have earlier turns: left out" in notes
    assert "95 of 95 training questions have gold in the index" in notes


def test_questions_that_share_gold_do_not_check_each_other(project: Path) -> None:
    """Five questions for each of 12 documents, at random: a leak would find every one again."""
    wrong = np.random.default_rng(1).permutation(12)
    rows = [
        {
            "id": f"{number}-{again}",
            "user_input": f"{'again ' * again}q{number}",
            "reference_ids": [f"docs/{wrong[number]}.txt"],
            "metadata": {"split": "tune"},
        }
        for number in range(12)
        for again in range(5)
    ]
    confirm = {"id": "c", "user_input": "q100", "reference_ids": ["docs/100.txt"]}
    rows.append({**confirm, "metadata": {"split": "confirm"}})
    (project / "testsets/shared.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tune = ("tune", "adapter", "--testset", "testsets/shared.jsonl", "--json")
    assert json.loads(ragwright(project, *tune, code=100).stdout)["training"]["after"] < 0.5
    alone = [row for row in rows if row["id"] == "c" or str(row["id"]).startswith("1-")]
    more = [{**row, "id": f"{row['id']}{n}"} for n in range(4) for row in alone]
    (project / "testsets/alone.jsonl").write_text("\n".join(map(json.dumps, more)))
    done = ragwright(project, "tune", "adapter", "--testset", "testsets/alone.jsonl", code=1)
    assert "share their gold" in done.stderr


@pytest.mark.slow
def test_questions_on_passages_of_one_document_train_an_adapter(tmp_path: Path) -> None:
    entries = {number: f"n{number}" for number in range(200)}
    text = "\n".join(entries.values()) + "\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/manual.txt").write_text(text)
    chunk = "chunk: {by: entries, pattern: '^n[0-9]+$'}\n"
    (tmp_path / "ragwright.yaml").write_text(SETTINGS + chunk)
    ragwright(tmp_path, "ingest")
    rows, start = [], 0
    for number, entry in entries.items():
        span = {"document_id": "docs/manual.txt", "start": start, "end": start + len(entry)}
        row = {"id": f"r{number}", "user_input": f"q{number}", "reference_spans": [span]}
        rows.append({**row, "metadata": {"split": "confirm" if number % 2 else "tune"}})
        start += len(entry) + 1
    (tmp_path / "spans.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = json.loads(
        ragwright(tmp_path, "tune", "adapter", "--testset", "spans.jsonl", "--json").stdout
    )
    assert made["training"]["questions"] == 100
    assert made["held_out"]["verdict"] == "better"
    assert made["held_out"]["counted"] == ["spans"]
    assert made["held_out"]["mean_a"] < 0.5 < made["held_out"]["mean_b"]


@pytest.mark.slow
def test_training_questions_without_gold_in_the_index_are_left_out(project: Path) -> None:
    lines = (project / "testsets/right.jsonl").read_text().splitlines()
    away = {"user_input": "q1", "metadata": {"split": "tune"}}
    missing = {**away, "id": "missing", "reference_ids": ["docs/removed.txt"]}
    unhelpful = {**away, "id": "unhelpful", "reference_ids": {"docs/0.txt": 0}}
    (project / "testsets/gaps.jsonl").write_text(
        "\n".join([*lines, json.dumps(missing), json.dumps(unhelpful)])
    )
    found = ragwright(
        project, "tune", "adapter", "--testset", "testsets/gaps.jsonl", "-o", "adapters/g.npz"
    )
    assert "100 of 102 training questions have gold in the index" in found.stderr


def test_too_few_questions_say_how_many_there_are(project: Path) -> None:
    done = ragwright(project, "tune", "adapter", "--testset", "testsets/few.jsonl", code=1)
    assert "10 training questions" in done.stderr
    assert "needs 20" in done.stderr


@pytest.mark.slow
def test_an_adapter_of_another_model_is_refused(project: Path) -> None:
    ragwright(
        project, "tune", "adapter", "--testset", "testsets/right.jsonl", "-o", "adapters/c.npz"
    )
    other = ("--set", "embed.model=own:other")
    ragwright(project, "ingest", *other)
    found = ragwright(
        project, "retrieve", "q7", *other, "--set", "retrieve.adapter=adapters/c.npz", code=1
    ).stderr
    assert "made for own:mirrored" in found


@pytest.mark.parametrize(("name", "content"), [("none.npz", None), ("damaged.npz", b"PK\x03\x04")])
def test_a_file_that_is_no_adapter_is_named(
    project: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (project / name).write_bytes(content)
    found = ragwright(project, "retrieve", "q7", "--set", f"retrieve.adapter={name}", code=1).stderr
    assert name in found
    assert "adapter" in found


def test_keyword_search_has_no_vectors_to_move(project: Path) -> None:
    words = ("tune", "adapter", "--testset", "testsets/right.jsonl")
    done = ragwright(project, *words, "--set", "retrieve.search=keyword", code=1)
    assert "the search is by keyword" in done.stderr


def test_without_an_embedding_model_there_is_nothing_to_adapt(project: Path) -> None:
    found = ragwright(
        project,
        "tune",
        "adapter",
        "--testset",
        "testsets/right.jsonl",
        "--set",
        "embed.model=",
        "--set",
        "retrieve.search=auto",
        code=1,
    ).stderr
    assert "no embedding model" in found
