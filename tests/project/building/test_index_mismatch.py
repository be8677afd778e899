"""A model swapped under an index: refused, and the message says what was swapped for what."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.core import RetrieveError
from ragwright.ledger import Ledger
from ragwright.models import Embedder, OnnxEmbedder, VectorRule
from ragwright.project import Session
from ragwright.workbench import Workbench


class _FromFile(Embedder):
    """Its identity is what its one file holds, as that of a local model is its weights' hash."""

    def __init__(self, source: str, options: Any) -> None:
        self.identity = f"onnx:{(Path(source) / 'weights').read_text()}"
        self.rule = VectorRule()
        self.dimensions = 4

    def embed_batch(self, texts: Any) -> Any:
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("__init__", "embed_batch", "tokenizer"):
        monkeypatch.setattr(OnnxEmbedder, name, getattr(_FromFile, name))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(f"hash-of-{name}")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The brake fluid must be changed every two years.")
    name_model(tmp_path, "onnx:one")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        assert bench.retrieve("brake").hits
    return tmp_path


def name_model(folder: Path, model: str, more: str = "") -> None:
    embed = f"embed: {{model: '{model}'}}\n" if model else ""
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{embed}{more}", "utf-8")


def refused(folder: Path) -> RetrieveError:
    with Workbench.open(folder) as bench, pytest.raises(RetrieveError) as told:
        bench.retrieve("brake")
    return told.value


def test_another_model_is_named_beside_the_old_one(project: Path) -> None:
    name_model(project, "onnx:two")
    error = refused(project)
    assert "the index was built with onnx:one (identity onnx:hash-of-one" in error.what
    assert "now it is onnx:two (identity onnx:hash-of-two" in error.what
    assert error.hint == "run: ragwright ingest, or set embed.model back to onnx:one"
    with Workbench.open(project) as bench:
        bench.ingest()
        assert bench.retrieve("brake").hits


def test_the_command_repeats_settings_that_the_index_depends_on(project: Path) -> None:
    over = ("chunk.by=whole", "retrieve.top_k=3", "embed.model=onnx:two")
    with (
        Workbench.open(project, Session(over)) as bench,
        pytest.raises(RetrieveError) as told,
    ):
        bench.retrieve("brake")
    assert told.value.hint is not None
    assert told.value.hint.startswith(
        "run: ragwright ingest --set chunk.by=whole --set embed.model=onnx:two, or"
    )


def test_files_that_changed_under_one_name_are_told(project: Path) -> None:
    (project / "one" / "weights").write_text("hash-of-three")
    error = refused(project)
    assert "the files or settings of onnx:one have changed since the index was built" in error.what
    assert "hash-of-one" in error.what
    assert "hash-of-three" in error.what
    assert error.hint == "run: ragwright ingest, or restore the former files of onnx:one"


def test_without_the_note_the_identity_is_told(project: Path) -> None:
    with Workbench.open(project) as bench, closing(Ledger(bench.project.folder.ledger)) as ledger:
        ledger.write(lambda db: db.execute("DELETE FROM embedders").rowcount)
    name_model(project, "onnx:two")
    error = refused(project)
    assert "the index was built with an embedding model (identity onnx:hash-of-one" in error.what
    assert error.hint == "run: ragwright ingest, or set embed.model back to the former model"


def test_no_model_any_more(project: Path) -> None:
    name_model(project, "")
    assert "now no embedding model is configured" in refused(project).what


def test_chunks_cut_otherwise(project: Path) -> None:
    name_model(project, "onnx:one", "chunk: {by: whole}\n")
    error = refused(project)
    assert "chunks were cut as" in error.what
    assert "embedding model" not in error.what
    assert error.hint == "run: ragwright ingest, or set these keys back"


def test_the_index_stays_whatever_is_refused(project: Path) -> None:
    name_model(project, "onnx:two")
    refused(project)
    name_model(project, "onnx:one")
    with Workbench.open(project) as bench:
        assert bench.retrieve("brake").hits


def test_a_view_that_cannot_be_opened_is_answered_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End to end: the read view fails, the stored rows answer, and the answer says so."""
    with Workbench.open(project) as bench:
        expected = bench.retrieve("brake fluid").hits

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no room for the view")

    monkeypatch.setattr("ragwright.index.SqliteStore.view", fail)
    with Workbench.open(project) as bench:
        found = bench.retrieve("brake fluid")
    assert found.hits == expected
    (note,) = (note for note in found.notes if "a second index" in note)
    assert "MemoryError: no room for the view" in note
