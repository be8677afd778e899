"""`tune embedder`: fine-tuning on a tiny model of one layer, kept only where it wins."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from onnx_folders import export_onnx
from tiny_models import ANIMALS, COLOURS, SETTINGS, write_embedder, write_project
from waiting import wait_until

from ragwright.project import Project
from ragwright.training import ModelTuneOptions, TrainingOptions, tune_embedder

pytestmark = [pytest.mark.slow, pytest.mark.needs_torch]

TRAIN = ("--epochs", "8", "--batch", "16", "--tokens", "40", "--rate", "1e-2", "-q")
SMALL = ("--epochs", "2", "--batch", "16", "--tokens", "40", "-q")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """A tiny model is trained faster by one thread than by two that wait for each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer with random weights and a hundred words."""
    folder = write_embedder(tmp_path_factory.mktemp("tiny"))
    gc.freeze()  # each training collects garbage, and would look through all of torch
    return folder


@pytest.fixture(scope="module")
def project(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts with an animal and a colour among other words; questions name both."""
    root = tmp_path_factory.mktemp("embedder")
    shutil.copytree(tiny, root / "tiny")
    write_project(root)
    return root


def tuned(root: Path, *words: str, code: int | None = 0) -> Any:
    done = ragwright(root, "tune", "embedder", *words, "--json", code=code)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def won(project: Path) -> Any:
    """What a training on the right rows says, which several tests look at."""
    also = ("--also", "testsets/wrong.jsonl")
    return tuned(project, "--testset", "testsets/right.jsonl", *TRAIN, *also)


def test_a_model_that_wins_is_a_folder_for_both_engines(project: Path, won: Any) -> None:
    found = won
    assert found["held_out"]["verdict"] == "better"
    assert found["held_out"]["mean_b"] > found["held_out"]["mean_a"]
    assert found["value"] == f"st:{found['written']}"
    assert [row["also on"] for row in found["also"]] == ["wrong.jsonl"]
    assert found["curve"][0]["step"] == 0
    folder = project / found["written"]
    card = (folder / "README.md").read_text()
    assert f"{found['held_out']['mean_b']:.3f}" in card
    assert "Worse than before" in card
    curve = (folder / "training.csv").read_text().splitlines()
    assert curve[0] == "step,epoch,loss,unseen MRR@10"
    assert len(curve) > found["curve"][-1]["step"]
    # The comparison has built the index, so that no ingest is needed.
    use = ("--set", f"embed.model={found['value']}")
    first = json.loads(ragwright(project, "retrieve", "the dog blue", "--json", *use).stdout)
    assert first["hits"]


def test_the_same_training_again_gives_the_same_folder(project: Path, won: Any) -> None:
    second = tuned(project, "--testset", "testsets/right.jsonl", *TRAIN)
    assert won["value"].startswith("st:models/tuned-")
    assert second["value"] == won["value"]
    assert (project / second["written"] / "README.md").is_file()


def test_random_gold_is_refused_and_nothing_is_left(project: Path) -> None:
    def kept() -> list[str]:
        with Project.open(project) as opened:
            held = opened.store.index_specs()
            return sorted(str(pair) for pair in held if opened.store.content_hashes(pair))

    def models() -> set[Path]:
        return {*(project / "models").glob("*")}

    before, there = kept(), models()
    done = ragwright(
        project, "tune", "embedder", "--testset", "testsets/wrong.jsonl", *SMALL, code=100
    )
    assert "no model was written" in done.stdout
    assert models() == there
    assert not [*(project / ".ragwright/cache/training").glob("*")]
    assert kept() == before


def test_questions_are_made_without_a_testset(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "tiny", tmp_path / "tiny")
    (tmp_path / "ragwright.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    for number in range(36):
        (tmp_path / f"docs/{number}.md").write_text(
            f"# Error E{100 + 7 * number}\n\nThe {ANIMALS[number % 10]} of the number {number} "
            f"stopped, since its {COLOURS[number % 8]} belt left the wheel {number} behind it.\n"
        )
    ragwright(tmp_path, "ingest", "-q")
    made = ragwright(
        tmp_path, "tune", "embedder", "--from", "headings,glossary", *SMALL, "--json", code=None
    )
    found = json.loads(made.stdout)
    counts = {row["pairs from"]: row["count"] for row in found["pairs"]}
    assert counts.keys() == {"headings", "glossary"}
    assert sum(counts.values()) == found["training"]["questions"]
    assert "held-out questions were made from the documents" in " ".join(found["notes"])


def test_a_printed_list_of_codes_gives_pairs(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "tiny", tmp_path / "tiny")
    (tmp_path / "ragwright.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    entries = [
        f"ANI_w{100 + 7 * n}\n\n{ANIMALS[n % 10].title()} and {COLOURS[n % 8]} belt {n}\n\n"
        f"The belt left the wheel {n} behind it. Call the keeper of the {ANIMALS[n % 10]}."
        for n in range(60)
    ]
    (tmp_path / "docs/manual.md").write_text("Codes of the zoo\n\n" + "\n\n".join(entries))
    ragwright(tmp_path, "ingest", "-q")
    made = ragwright(
        tmp_path, "tune", "embedder", "--from", "glossary", *SMALL, "--json", code=None
    )
    (row,) = json.loads(made.stdout)["pairs"]
    assert row["pairs from"] == "glossary"
    assert row["count"] >= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--testset", "testsets/few.jsonl"), "training needs 20"),
        (("--from", "testset"), "no testset is given"),
        (("--from", "pages"), "one of testset, headings, cloze, glossary"),
        (("--testset", "testsets/right.jsonl", "-o", "docs"), "name another folder"),
        (("--set", "embed.model="), "no embedding model is set"),
        (("--set", "embed.model=openai:text-embedding-3-small"), "a server holds its weights"),
        (("--testset", "testsets/right.jsonl", *SMALL, "--rate", "1e30"), "try a lower rate"),
    ],
)
def test_what_cannot_be_trained_says_why(project: Path, words: tuple[str, ...], said: str) -> None:
    found = ragwright(project, "tune", "embedder", *words, "-q", code=1).stderr
    assert said in found


def test_an_empty_confirm_split_is_refused_before_training(project: Path) -> None:
    rows = [
        {"user_input": f"the red dog {n}", "reference_ids": ["docs/dog-red.txt"], "split": "tune"}
        for n in range(30)
    ]
    (project / "testsets/one.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = ragwright(
        project, "tune", "embedder", "--testset", "testsets/one.jsonl", *SMALL[:-1], code=1
    ).stderr
    assert "the confirm split is empty" in found
    assert "choosing training passages" not in found


def test_a_folder_with_onnx_alone_names_the_other_engine(project: Path, tiny: Path) -> None:
    export_onnx(tiny, project / "only-onnx")
    onnx = ("--set", "embed.model=onnx:only-onnx")
    words = ("--testset", "testsets/right.jsonl", *onnx)
    found = ragwright(project, "tune", "embedder", *words, code=1).stderr
    assert "no PyTorch weights" in found
    assert "st:FOLDER" in found


def test_a_folder_without_a_tokenizer_is_refused(project: Path, tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "bare")
    for file in (tmp_path / "bare").rglob("*token*"):
        file.unlink()
    bare = ("--set", f"embed.model=st:{tmp_path / 'bare'}")
    assert "no tokenizer" in ragwright(project, "ingest", "-q", *bare, code=1).stderr
    words = ("--testset", "testsets/right.jsonl", *bare)
    assert "no tokenizer" in ragwright(project, "tune", "embedder", *words, code=1).stderr


def test_a_static_model_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    words = ("--testset", "testsets/right.jsonl", "--set", f"embed.model=static:{tmp_path}")
    said = ragwright(project, "tune", "embedder", *words, code=1).stderr
    assert "word vectors without layers" in said


def test_triplets_with_random_pages_teach_codes_that_were_held_out(
    tiny: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny, tmp_path / "tiny")
    (tmp_path / "ragwright.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    rows = []
    for number in range(120):
        code, animal, colour = f"E{100 + 7 * number}", ANIMALS[number % 12], COLOURS[number % 10]
        (tmp_path / f"docs/{number}.md").write_text(
            f"# Error {code}\n\nThe {animal} of the number {number} stopped, since its {colour} "
            f"belt left the wheel {number} behind it.\n"
        )
        row: dict[str, object] = {"id": code, "user_input": f"What is {code}?"}
        rows.append({**row, "reference_ids": [f"docs/{number}.md"]})
    (tmp_path / "codes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ragwright(tmp_path, "ingest", "-q")
    words = ("--testset", "codes.jsonl", "--negatives", "random")
    found = tuned(tmp_path, *words, "--epochs", "15", *TRAIN[2:], "--keep", code=None)
    assert found["training"]["negatives"] == "random"
    assert found["training"]["after"] > found["training"]["before"]
    assert found["held_out"]["mean_b"] > found["held_out"]["mean_a"]
    losses = [row["loss"] for row in found["curve"][1:]]
    assert losses[-1] < losses[0]
    shares = [row["share of trained weights"] for row in found["merge"]]
    assert shares == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    taken = found["merge"][shares.index(found["training"]["trained_share"])]
    assert taken["unseen MRR@10"] == found["training"]["after"]


def test_a_loss_that_is_not_a_number_keeps_the_best_checkpoint(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    forward, calls = MultipleNegativesRankingLoss.forward, []

    def broken(self: Any, *given: Any) -> Any:
        calls.append(1)
        return forward(self, *given) * (float("nan") if len(calls) == 16 else 1.0)

    monkeypatch.setattr(MultipleNegativesRankingLoss, "forward", broken)
    how = ModelTuneOptions(
        training=TrainingOptions(epochs=8, batch=16, tokens=40, rate=1e-2), output="models/nan"
    )
    with Project.open(project) as opened:
        found = tune_embedder(opened, "testsets/right.jsonl", how)
    assert "became nan at step 16" in " ".join(found.notes)
    assert found.training.after > found.training.before
    assert 0 < found.training.settings["best_step"] < 16


SLOWED = """
import time
from ragwright.app import main
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss as Loss
forward = Loss.forward
Loss.forward = lambda *given: time.sleep(0.3) or forward(*given)
main()
"""
"""The program with a training so slow that a signal comes in the middle of it."""


def test_an_interrupted_training_continues_to_the_same_weights(
    project: Path, won: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    words = ("tune", "embedder", "--testset", "testsets/right.jsonl", *TRAIN, "-o", "models/whole")
    work = project / ".ragwright/cache/training"
    shutil.rmtree(work, ignore_errors=True)  # other tests leave trainings that nobody resumes
    running = subprocess.Popen([sys.executable, "-c", SLOWED, *words], cwd=project)
    wait_until(lambda: [*work.glob("*/checkpoint-*/trainer_state.json")])
    running.kill()
    assert running.wait(60) == -signal.SIGKILL
    forward, calls = MultipleNegativesRankingLoss.forward, []

    def interrupted(self: Any, *given: Any) -> Any:
        calls.append(1)
        if len(calls) == 10:
            signal.raise_signal(signal.SIGINT)
        return forward(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(MultipleNegativesRankingLoss, "forward", interrupted)
        stopped = ragwright(project, *words, "--resume", code=130)
    assert "--resume" in stopped.stderr
    assert len(calls) == 10
    found = json.loads(ragwright(project, *words, "--resume", "--json").stdout)
    assert "continued from step" in " ".join(found["notes"])
    folders = ("models/whole", won["written"])
    weights = [(project / one / "model.safetensors").read_bytes() for one in folders]
    assert weights[0] == weights[1]


def test_a_real_model_of_onnx_and_weights_is_trained(
    minilm: Path, minilm_onnx: Path, tmp_path: Path
) -> None:
    shutil.copytree(minilm, tmp_path / "minilm")
    shutil.copytree(minilm_onnx, tmp_path / "minilm", dirs_exist_ok=True)
    (tmp_path / "docs").mkdir()
    rows = []
    for number in range(50):
        code, animal = f"E{1000 + 37 * number}", ANIMALS[number % len(ANIMALS)]
        (tmp_path / f"docs/{number}.md").write_text(f"# {code}\n\nThe {animal} left the road.\n")
        row: dict[str, object] = {"id": code, "user_input": f"What is {code}?"}
        rows.append({**row, "reference_ids": [f"docs/{number}.md"]})
    (tmp_path / "codes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = SETTINGS.replace("st:tiny", "onnx:minilm")
    (tmp_path / "ragwright.yaml").write_text(settings)
    ragwright(tmp_path, "ingest", "-q")
    words = ("--testset", "codes.jsonl", "--epochs", "1", "--batch", "8", "--tokens", "24")
    done = ragwright(tmp_path, "tune", "embedder", *words, "--json", "-q", code=None)
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["written"] else 100)
    losses = [row["loss"] for row in found["curve"][1:]]
    assert losses[-1] < losses[0]
    if found["written"]:
        assert found["value"].startswith("st:models/tuned-")


def test_a_model_that_is_not_proven_better_is_kept_on_request_and_marked(project: Path) -> None:
    words = ("--testset", "testsets/wrong.jsonl", *SMALL, "--keep")
    found = tuned(project, *words, code=100)
    assert (found["proven"], found["held_out"]["verdict"]) == (False, "no change proven")
    assert found["value"].startswith("st:models/unproven-")
    assert "kept, although it is not proven better" in found["headline"]
    card = (project / found["written"] / "README.md").read_text()
    assert "ragwright_proven: false" in card
    assert "Not proven better" in card
    use = ("--set", f"embed.model={found['value']}")
    checks = json.loads(ragwright(project, "doctor", "--json", *use).stdout)["checks"]
    assert any("not proven better" in check["text"] for check in checks)
    evaluated = ("eval", "--testset", "testsets/few.jsonl", "--retrieval-only", "--json")
    notes = json.loads(ragwright(project, *evaluated, *use).stdout)["notes"]
    assert any("not proven better" in note for note in notes)
    table = ("compare", "--table", "tutorial", "--testset", "testsets/right.jsonl", "--json")
    made = json.loads(ragwright(project, *table, "--tuned", f"embed.model={found['value']}").stdout)
    assert [bool(row["skipped"]) for row in made["rows"]] == [False] * 4
    assert any("not proven better" in note for note in made["notes"])
    plain = json.loads(ragwright(project, "doctor", "--json").stdout)["checks"]
    assert not any("not proven better" in check["text"] for check in plain)
