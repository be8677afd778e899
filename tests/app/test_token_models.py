"""Models of tokens and text settings, as they are named on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

ROW = {"id": "a", "user_input": "When?", "response": "every two years", "reference": "two years"}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    return tmp_path


def scored(folder: Path, model: str, measures: str = "BERTScore,MoverScore") -> dict[str, float]:
    done = ragwright(
        *(folder, "score", "rows.jsonl", "--measures", measures, "--json"),
        *("--set", f"judge.token_model={model}"),
    )
    return {name: one["mean"] for name, one in json.loads(done.stdout)["measures"].items()}


@pytest.mark.slow
def test_a_token_model_is_named_as_a_folder_or_with_its_provider(rows: Path, minilm: Path) -> None:
    project = MakeProject(rows)()
    shutil.copy(rows / "rows.jsonl", project)
    (project / "models").mkdir()
    (project / "models" / "small").symlink_to(minilm)
    alone = scored(rows, str(minilm))
    assert 0.5 < alone["BERTScore"] < 1
    for folder, name in (
        (rows, f"st:{minilm}"),
        (project, str(minilm)),
        (project, f"st:{minilm}"),
        (project, "models/small"),
        (project, "st:models/small"),
    ):
        assert scored(folder, name) == alone, name
    recall = scored(project, "st:models/small", "BERTScore(recall)")
    assert recall["BERTScore(recall)"] != alone["BERTScore"]


@pytest.mark.slow
def test_a_sentence_transformer_keeps_its_transformer_in_a_folder_of_its_own(
    rows: Path, minilm: Path
) -> None:
    inner = rows / "model" / "0_Transformer"
    inner.mkdir(parents=True)
    for file in minilm.iterdir():
        if file.is_file() and file.name != "modules.json":
            shutil.copy(file, inner)
    layers = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    (rows / "model" / "modules.json").write_text(json.dumps(layers))
    assert scored(rows, "st:model") == scored(rows, str(minilm))


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": {"model_type": "model2vec"}},
        {"modules.json": [{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}]},
    ],
)
@pytest.mark.parametrize("place", ["alone", "project"])
@pytest.mark.needs_torch
def test_a_static_model_is_no_token_model(rows: Path, files: dict[str, object], place: str) -> None:
    folder = rows if place == "alone" else MakeProject(rows)()
    if folder != rows:
        shutil.copy(rows / "rows.jsonl", folder)
    (folder / "static").mkdir()
    for name, content in files.items():
        (folder / "static" / name).write_text(json.dumps(content))
    words = ("score", "rows.jsonl", "--measures", "BERTScore")
    for name in ("st:static", "static"):
        done = ragwright(folder, *words, "--set", f"judge.token_model={name}", code=1)
        assert "need a transformer; this model is a table of word vectors" in done.stderr, name
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "no such model folder"),
        ("st:nowhere", "no such model folder"),
        ("openai:gpt-4.1-mini", "is not a local model"),
        ("docs", "the folder holds no transformer"),
    ],
)
@pytest.mark.needs_torch
def test_what_is_no_token_model_is_refused_before_the_first_row(
    rows: Path, name: str, said: str
) -> None:
    project = MakeProject(rows)()
    shutil.copy(rows / "rows.jsonl", project)
    words = ("score", "rows.jsonl", "--measures", "MoverScore")
    done = ragwright(project, *words, "--set", f"judge.token_model={name}", code=1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("query: ", "query: "),
        ("passage: a: b", "passage: a: b"),
        ("- ", "- "),
        ("[x]", "[x]"),
        ("5", "5"),
        ('"query: "', "query: "),
        ("null", None),
    ],
)
def test_a_setting_that_holds_a_text_takes_it_as_it_is_written(
    tmp_path: Path, text: str, value: str | None
) -> None:
    from ragwright import Session, Workbench

    folder = MakeProject(tmp_path)()
    with Workbench.open(folder, Session((f"embed.query_prefix={text}",))) as bench:
        assert bench.project.settings.embed.query_prefix == value


def test_other_settings_are_read_as_yaml(tmp_path: Path) -> None:
    from ragwright import Session, Workbench

    folder = MakeProject(tmp_path)()
    given = ("retrieve.top_k=3", "prompt.without=[role]", "judge.rejection_cues=[no idea]")
    with Workbench.open(folder, Session(given)) as bench:
        settings = bench.project.settings
    assert settings.retrieve.top_k == 3
    assert settings.prompt.without == ("role",)
    assert settings.judge.rejection_cues == ("no idea",)
