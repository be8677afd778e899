"""`tune` and `promote`: models are kept only where they win, and what is promoted is served."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from onnx_folders import export_onnx
from story_tools import lacking, make_project, read_json, run, settings, write_rows
from tiny_models import ANIMALS, COLOURS, SETTINGS, write_embedder, write_project
from waiting import wait_until

from ragwright.models import Models
from ragwright.project import Project
from ragwright.training import ModelTuneOptions, TrainingOptions, tune_embedder


def with_torch(test: Any) -> Any:
    """Mark a test that trains a model."""
    return pytest.mark.slow(pytest.mark.needs_torch(test))


# -- promotion -------------------------------------------------------------------------------

PARTS = ("brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp", "horn", "door")
RULE = "--gate HitRate@1>=0.5"
NEAR = "--gate HitRate@1>=baseline-0.5"
ASKED = "eval --testset rows.jsonl --measures HitRate@1 --retrieval-only"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    texts = {f"{part}.md": f"# The {part}\n\nThe {part} is changed yearly.\n" for part in PARTS}
    make_project(tmp_path, texts, "retrieve: {top_k: 3}\n")
    rows = [
        {"user_input": f"When is the {part} changed?", "reference_ids": [f"docs/{part}.md"]}
        for part in PARTS
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    return tmp_path


@pytest.mark.slow
def test_what_passes_is_served_and_what_does_not_is_not(parts: Path) -> None:
    run(parts, f"{ASKED} --name first")
    failed = ragwright(parts, "promote", "first", "--gate", "HitRate@1<=0.5", code=1)
    assert "would pass when HitRate@1 gets worse" in failed.stderr
    thin = run(parts, f"promote first {RULE} --least 99", code=101)
    assert "not promoted; served: nothing" in thin
    assert "now served: number 1" in run(parts, f"promote first {RULE}")
    run(parts, f"{ASKED} --set retrieve.top_k=2 --name equal")
    found = read_json(parts, f"promote equal {NEAR} --reason shorter")
    assert found["served"]["gate"]["checks"][0]["rule"] == NEAR.split()[1]
    run(parts, f"{ASKED} -o scores.jsonl")
    found = read_json(parts, f"promote first {NEAR} --baseline scores.jsonl --dry-run")
    assert (found["outcome"], found["baseline"]) == ("passed", "scores.jsonl")
    served = read_json(parts, "retrieve --served", "brake changed")["hits"]
    present = read_json(parts, "retrieve", "brake changed")["hits"]
    assert (len(served), len(present)) == (2, 3)
    assert not lacking(run(parts, "promote --show"), "# number 2", "top_k: 2")
    assert read_json(parts, "promote --show")["settings"]["retrieve"]["top_k"] == 2
    [_, change] = read_json(parts, "promote --history")["changes"]
    assert all(change[name] for name in ("at", "by", "run", "reason"))
    assert "shorter" in run(parts, "promote --history")
    study = "study: {testset: rows.jsonl, measures: HitRate@1, search: grid}\n"
    (parts / "study.yaml").write_text(f"{study}retrieve: {{top_k: [4, 6]}}\n")
    run(parts, "sweep study.yaml")
    run(parts, f"promote T002 {RULE} --least 5 --rules-alone")
    assert read_json(parts, "promote --show")["settings"]["retrieve"]["top_k"] == 6
    hits = read_json(parts, "retrieve --served", "changed yearly")["hits"]
    assert len(hits) == 6, "a trial is served as it was measured"


# -- training --------------------------------------------------------------------------------

RIGHT, WRONG = "--testset testsets/right.jsonl", "--testset testsets/wrong.jsonl"
LEARNS = "--epochs 8 --batch 16 --tokens 40 --rate 1e-2 -q"
SMALL = "--epochs 2 --batch 16 --tokens 40 -q"
SHORT = "--epochs 1 --batch 16 --tokens 40"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer with random weights and a hundred words."""
    folder = write_embedder(tmp_path_factory.mktemp("tiny"))
    gc.freeze()  # each training collects garbage, and would look through all of torch
    return folder


@pytest.fixture(scope="module")
def project(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Texts with an animal and a colour among other words; questions name both."""
    root = tmp_path_factory.mktemp("embedder")
    shutil.copytree(tiny, root / "tiny")
    write_project(root)
    one = [
        {"user_input": f"the red dog {n}", "reference_ids": ["docs/dog-red.txt"]} for n in range(30)
    ]
    write_rows(root / "testsets/one.jsonl", [{**row, "split": "tune"} for row in one])
    (root / "vectors").mkdir()
    (root / "vectors" / "config.json").write_text('{"model_type": "model2vec"}')
    with pytest.MonkeyPatch.context() as patch:
        # A tiny model is trained faster by one thread than by two that wait for each other.
        patch.setenv("OMP_NUM_THREADS", "1")
        yield root


def code_pages(root: Path, tiny: Path, count: int, text: str, config: str = SETTINGS) -> Path:
    """A project of this many pages on a code each; the text may name animal, colour and number."""
    shutil.copytree(tiny, root / "tiny", dirs_exist_ok=True)
    (root / "docs").mkdir()
    (root / "ragwright.yaml").write_text(config)
    for n in range(count):
        names = {"code": f"E{100 + 7 * n}", "n": n}
        names |= {"animal": ANIMALS[n % 10], "colour": COLOURS[n % 8]}
        (root / f"docs/{n}.md").write_text(text.format_map(names))
    run(root, "ingest -q")
    return root


BELT = "# Error {code}\n\nThe {animal} of the number {n} stopped, since its {colour} "
BELT += "belt left the wheel {n} behind it.\n"


@pytest.fixture(scope="module")
def won(project: Path) -> Any:
    """What a training on the right rows says, which several tests look at."""
    return read_json(project, f"tune embedder {RIGHT} {LEARNS} --also testsets/wrong.jsonl")


def checks(root: Path, *words: str) -> list[str]:
    return [check["text"] for check in read_json(root, "doctor", *words)["checks"]]


@with_torch
def test_a_model_that_wins_is_a_folder_for_both_engines(project: Path, won: Any) -> None:
    held = won["held_out"]
    assert held["verdict"] == "better"
    assert held["mean_b"] > held["mean_a"]
    assert won["value"] == f"st:{won['written']}"
    assert won["value"].startswith("st:models/tuned-")
    assert [row["also on"] for row in won["also"]] == ["wrong.jsonl"]
    assert won["curve"][0]["step"] == 0
    folder = project / won["written"]
    card = (folder / "README.md").read_text()
    assert not lacking(card, f"{held['mean_b']:.3f}", "Worse than before")
    curve = (folder / "training.csv").read_text().splitlines()
    assert curve[0] == "step,epoch,loss,unseen MRR@10"
    assert len(curve) > won["curve"][-1]["step"]
    # The comparison has built the index, so that no ingest is needed.
    use = settings(embed__model=won["value"])
    assert read_json(project, "retrieve", "the dog blue", *use)["hits"]
    second = read_json(project, f"tune embedder {RIGHT} {LEARNS}")
    assert second["value"] == won["value"], "the same training gives the same folder"
    assert (project / second["written"] / "README.md").is_file()


@with_torch
def test_random_gold_is_refused_and_nothing_is_left_unless_it_is_kept_and_marked(
    project: Path,
) -> None:
    def kept() -> list[str]:
        with Project.open(project) as opened:
            held = opened.store.index_specs()
            return sorted(str(pair) for pair in held if opened.store.content_hashes(pair))

    before, there = kept(), {*(project / "models").glob("*")}
    for part, written in (("embedder", "model"), ("reranker", "reranker")):
        done = run(project, f"tune {part} {WRONG} {SMALL}", code=100)
        assert f"no {written} was written" in done
    assert {*(project / "models").glob("*")} == there
    assert not [*(project / ".ragwright/cache/training").glob("*")]
    assert kept() == before
    found = read_json(project, f"tune embedder {WRONG} {SMALL} --keep", code=100)
    assert (found["proven"], found["held_out"]["verdict"]) == (False, "no change proven")
    assert found["value"].startswith("st:models/unproven-")
    assert "kept, although it is not proven better" in found["headline"]
    card = (project / found["written"] / "README.md").read_text()
    assert not lacking(card, "ragwright_proven: false", "Not proven better")
    use = settings(embed__model=found["value"])
    asked = "eval --testset testsets/few.jsonl --retrieval-only"
    table = f"compare --table tutorial {RIGHT} --tuned embed.model={found['value']}"
    made = read_json(project, table)
    assert [bool(row["skipped"]) for row in made["rows"]] == [False] * 4
    notes = read_json(project, asked, *use)["notes"]
    for texts in (checks(project, *use), notes, made["notes"]):
        assert any("not proven better" in text for text in texts)
    assert not any("not proven better" in text for text in checks(project))


@with_torch
def test_questions_are_made_without_a_testset(tiny: Path, tmp_path: Path) -> None:
    code_pages(tmp_path, tiny, 36, BELT)
    tune = "tune embedder --from"
    found = read_json(tmp_path, f"{tune} headings,glossary {SMALL}", code=None)
    counts = {row["pairs from"]: row["count"] for row in found["pairs"]}
    assert counts.keys() == {"headings", "glossary"}
    assert sum(counts.values()) == found["training"]["questions"]
    assert "held-out questions were made from the documents" in " ".join(found["notes"])
    entries = [
        f"ANI_w{100 + 7 * n}\n\n{ANIMALS[n % 10].title()} and {COLOURS[n % 8]} belt {n}\n\n"
        f"The belt left the wheel {n} behind it. Call the keeper of the {ANIMALS[n % 10]}."
        for n in range(60)
    ]
    shutil.rmtree(tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/manual.md").write_text("Codes of the zoo\n\n" + "\n\n".join(entries))
    run(tmp_path, "ingest -q --prune")
    (row,) = read_json(tmp_path, f"{tune} glossary {SMALL}", code=None)["pairs"]
    assert row["pairs from"] == "glossary"
    assert row["count"] >= 60, "a printed list of codes gives pairs"


@with_torch
def test_triplets_with_random_pages_teach_codes_that_were_held_out(
    tiny: Path, tmp_path: Path
) -> None:
    code_pages(tmp_path, tiny, 120, BELT)
    rows = [
        {"id": str(n), "user_input": f"What is E{100 + 7 * n}?"}
        | {"reference_ids": [f"docs/{n}.md"]}
        for n in range(120)
    ]
    write_rows(tmp_path / "codes.jsonl", rows)
    words = f"--testset codes.jsonl --negatives random {LEARNS.replace('8', '15', 1)} --keep"
    found = read_json(tmp_path, f"tune embedder {words}", code=None)
    assert found["training"]["negatives"] == "random"
    assert found["training"]["after"] > found["training"]["before"]
    assert found["held_out"]["mean_b"] > found["held_out"]["mean_a"]
    losses = [row["loss"] for row in found["curve"][1:]]
    assert losses[-1] < losses[0]
    shares = [row["share of trained weights"] for row in found["merge"]]
    assert shares == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    taken = found["merge"][shares.index(found["training"]["trained_share"])]
    assert taken["unseen MRR@10"] == found["training"]["after"]


@with_torch
def test_a_loss_that_is_not_a_number_keeps_the_best_checkpoint(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    forward, calls = MultipleNegativesRankingLoss.forward, []

    def broken(self: Any, *given: Any) -> Any:
        calls.append(1)
        return forward(self, *given) * (float("nan") if len(calls) == 16 else 1.0)

    monkeypatch.setattr(MultipleNegativesRankingLoss, "forward", broken)
    training = TrainingOptions(epochs=8, batch=16, tokens=40, rate=1e-2)
    how = ModelTuneOptions(training=training, output="models/nan")
    with Project.open(project) as opened:
        found = tune_embedder(opened, "testsets/right.jsonl", how)
    assert "became nan at step 16" in " ".join(found.notes)
    assert found.training.after > found.training.before
    assert 0 < found.training.settings["best_step"] < 16


@with_torch
def test_an_interrupted_training_continues_to_the_same_weights(
    project: Path, won: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    words = f"tune embedder {RIGHT} {LEARNS} -o models/whole".split()
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


@with_torch
def test_a_real_model_of_onnx_and_weights_is_trained(
    minilm: Path, minilm_onnx: Path, tmp_path: Path
) -> None:
    shutil.copytree(minilm, tmp_path / "minilm")
    shutil.copytree(minilm_onnx, tmp_path / "minilm", dirs_exist_ok=True)
    config = SETTINGS.replace("st:tiny", "onnx:minilm")
    code_pages(tmp_path, minilm, 50, "# {code}\n\nThe {animal} left the road.\n", config)
    rows = [
        {"user_input": f"What is E{100 + 7 * n}?", "reference_ids": [f"docs/{n}.md"]}
        for n in range(50)
    ]
    write_rows(tmp_path / "codes.jsonl", rows)
    words = "tune embedder --testset codes.jsonl --epochs 1 --batch 8 --tokens 24 --json -q"
    done = ragwright(tmp_path, *words.split(), code=None)
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["written"] else 100)
    losses = [row["loss"] for row in found["curve"][1:]]
    assert losses[-1] < losses[0]
    if found["written"]:
        assert found["value"].startswith("st:models/tuned-")


SLOWED = """
import time
from ragwright.app import main
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss as Loss
forward = Loss.forward
Loss.forward = lambda *given: time.sleep(0.3) or forward(*given)
main()
"""
"""The program with a training so slow that a signal comes in the middle of it."""


@with_torch
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("embedder --testset testsets/few.jsonl", "training needs 20"),
        ("embedder --from testset", "no testset is given"),
        ("embedder --from pages", "one of testset, headings, cloze, glossary"),
        (f"embedder {RIGHT} -o docs", "name another folder"),
        ("embedder --set embed.model=", "no embedding model is set"),
        ("embedder --set embed.model=openai:text-embedding-3-small", "a server holds its weights"),
        (f"embedder {RIGHT} {SMALL} --rate 1e30", "try a lower rate"),
        (f"embedder --testset testsets/one.jsonl {SMALL}", "the confirm split is empty"),
        (f"embedder {RIGHT} --set embed.model=static:vectors", "word vectors without layers"),
        ("reranker --testset testsets/few.jsonl", "training needs 20"),
        ("reranker --set embed.model= --set retrieve.search=auto", "no model is set to start"),
        (f"reranker {RIGHT} --base st:nowhere", "cannot be trained to score pairs"),
        (f"reranker {RIGHT} --base openai:text-embedding-3-small", "a server holds its weights"),
        (f"reranker {RIGHT} -o docs", "name another folder"),
        (f"reranker --from-corpus --from testset {RIGHT}", "from the documents alone"),
        (f"reranker --testset testsets/one.jsonl {SMALL}", "confirm split is empty"),
        (f"reranker {RIGHT} --base static:vectors", "word vectors"),
    ],
)
def test_what_cannot_be_trained_says_why(project: Path, words: str, said: str) -> None:
    found = ragwright(project, "tune", *words.removesuffix(" -q").split(), code=1).stderr
    assert said in found
    assert "choosing training passages" not in found or "rate" in said


@with_torch
def test_folders_that_lack_weights_or_a_tokenizer_are_refused(project: Path, tiny: Path) -> None:
    export_onnx(tiny, project / "only-onnx")
    onnx = ["--set", "embed.model=onnx:only-onnx"]
    found = ragwright(project, "tune", "embedder", *RIGHT.split(), *onnx, code=1).stderr
    assert not lacking(found, "no PyTorch weights", "st:FOLDER")
    shutil.copytree(tiny, project / "bare")
    for file in (project / "bare").rglob("*token*"):
        file.unlink()
    for words in ("ingest -q", f"tune embedder {RIGHT}"):
        bare = [*words.split(), "--set", "embed.model=st:bare"]
        assert "no tokenizer" in ragwright(project, *bare, code=1).stderr


@with_torch
def test_a_reranker_that_wins_is_used_by_one_line(tiny: Path, tmp_path: Path) -> None:
    """Two texts on each thing, found by the same keywords: the one with "for" answers."""
    shutil.copytree(tiny, tmp_path / "tiny")
    things = [(animal, colour) for animal in ANIMALS for colour in COLOURS[:6]]
    texts = {
        f"{animal}-{colour}-{word}.txt": f"{colour} {animal} {word} {word} {word}"
        for animal, colour in things
        for word in ("for", "as")
    }
    root = make_project(tmp_path, texts)
    rows = [
        {"user_input": f"{colour} {animal}", "reference_ids": [f"docs/{animal}-{colour}-for.txt"]}
        for animal, colour in things
    ]
    write_rows(root / "rows.jsonl", rows)
    learns = "--epochs 4 --batch 16 --tokens 24 --rate 5e-3 -q"
    words = f"tune reranker --testset rows.jsonl --base st:tiny {learns} -o models/order"
    verdict = read_json(root, words)
    held = verdict["held_out"]
    assert held["verdict"] == "better"
    assert held["mean_b"] > held["mean_a"]
    assert verdict["setting"] == "retrieve.rerank.model"
    assert verdict["value"] == "st:models/order"
    weight = verdict["beside"]["search_weight"]
    table = {row["weight of the search"]: row for row in verdict["search_weight"]}
    assert table[weight]["unseen MRR@10"] == pytest.approx(verdict["training"]["after"])
    card = (root / "models/order/README.md").read_text()
    assert not lacking(card, "A reranking model", f"{held['mean_b']:.3f}")
    # The line that the command prints is a line of the project file.
    use = settings(retrieve__rerank__model=verdict["value"])
    use += settings(retrieve__rerank__search_weight=weight)
    hits = read_json(root, "retrieve", "blue dog", *use)["hits"]
    assert hits[0]["document_id"].endswith("-for.txt")
    assert "rerank" in hits[0]["channels"]
    passages = ["blue dog for for for", "blue dog as as as", "red cat for " * 60]
    scores = Models(root=root).reranker("st:models/order").score("blue dog", passages)
    assert scores[0] > scores[1]


@with_torch
def test_the_line_to_use_it_names_the_weight_of_the_search(project: Path) -> None:
    words = f"tune reranker {WRONG} {SHORT} --keep".split()
    shown = ragwright(project, *words, code=100).stderr
    line = "retrieve: {rerank: {model: st:models/unproven-reranker-"
    assert not lacking(shown, line, "search_weight: ", "# not proven better")
    (kept,) = (project / "models").glob("unproven-reranker-*")
    use = settings(retrieve__rerank__model=f"st:models/{kept.name}")
    told = checks(project, *use)
    assert any("not proven better than the search without it" in text for text in told)


@with_torch
def test_a_corpus_trains_and_the_whole_testset_decides(tiny: Path, tmp_path: Path) -> None:
    code_pages(tmp_path, tiny, 60, BELT)
    real = [
        {"user_input": f"belt of wheel {n}", "reference_ids": [f"docs/{n}.md"]} for n in range(8)
    ]
    write_rows(tmp_path / "real.jsonl", real)
    few = f"tune reranker --from-corpus --most 40 {SHORT} -q --keep"
    words = f"{few} --testset real.jsonl --from glossary,headings"
    verdict = read_json(tmp_path, words, code=None)
    assert verdict["held_out"]["n"] == len(real)
    assert {row["pairs from"] for row in verdict["pairs"]} <= {"glossary", "headings"}
    assert any("their documents answer held-out questions" in note for note in verdict["notes"])
    alone = read_json(tmp_path, few, code=None)
    assert any("not confirmed on questions of people" in note for note in alone["notes"])
    card = (tmp_path / alone["written"] / "README.md").read_text()
    assert "held-out questions: made from the documents too" in card
