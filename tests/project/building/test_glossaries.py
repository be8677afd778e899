"""What an index leaves behind: its glossary, and why it does not fit the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import ConfigError, Document, RetrieveError
from ragwright.models import Embedder, OnnxEmbedder, VectorRule
from ragwright.project import project_glossary


class Counted:
    """A store that counts how often its documents are read."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.read = 0

    def snapshot(self, pair: object) -> str:
        return self._bench.project.store.snapshot(self._bench.project.index_spec)

    def documents(self, pair: object) -> Iterator[Document]:
        self.read += 1
        return self._bench.project.store.documents(self._bench.project.index_spec)


@pytest.mark.parametrize("files", [{}, {"plain.md": "The brake fluid is old.\n"}])
def test_a_glossary_is_mined_once_a_snapshot_and_read_once(
    tmp_path: Path, files: dict[str, str]
) -> None:
    with Workbench.open(MakeProject(tmp_path)("", **files)) as bench:
        bench.ingest()
        store = Counted(bench)
        places = bench.project.folder.root, bench.project.folder.cache

        def glossary() -> Any:
            return project_glossary("corpus", *places, store, bench.project.index_spec)  # type: ignore[arg-type]

        mined = glossary()
        read = glossary()
        assert read == mined
        assert bool(mined.entries) != bool(files)
        assert glossary() is read  # the very object: nothing was read or mined for it
        assert store.read == 1


def test_a_given_file_is_read_again_where_it_changed(tmp_path: Path) -> None:
    with Workbench.open(MakeProject(tmp_path)()) as bench:
        bench.ingest()
        root, cache = bench.project.folder.root, bench.project.folder.cache
        pair = bench.project.store, bench.project.index_spec
        file = root / "g.yaml"
        for number, text in enumerate(("XK9: one", "XK9: two")):
            file.write_text(text)
            os.utime(file, (number, number))
            found = project_glossary("g.yaml", root, cache, *pair)
            assert found.entries["XK9"][0].text in text
        file.write_text("{}")
        for name, said in (("g.yaml", "terms"), ("h.yaml", "no such file")):
            with pytest.raises(ConfigError, match=said):
                project_glossary(name, root, cache, *pair)


class FromFile(Embedder):
    """Its identity is what its one file holds, as that of a local model is its weights' hash."""

    opened: list[tuple[str, str | None]]

    def __init__(self, source: str, options: Any) -> None:
        FromFile.opened.append((source, options.query_prefix))
        self.identity = f"onnx:{(Path(source) / 'weights').read_text()}"
        self.rule = VectorRule()
        self.dimensions = 4

    def embed_batch(self, texts: Any) -> Any:
        return np.full((len(texts), 4), 0.5, np.float32)


ONE, TWO = "embed: {model: 'onnx:one', query_prefix: 'find: '}", "embed: {model: 'onnx:two'}"
BACK = "run: ragwright ingest, or restore these settings and the files of the model"


def test_an_index_of_another_model_is_refused_and_says_what_was_swapped_for_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__init__", "embed_batch", "tokenizer"):
        monkeypatch.setattr(OnnxEmbedder, name, getattr(FromFile, name))
    FromFile.opened = []
    make = MakeProject(tmp_path)
    folder = make(ONE)
    weights = {name: folder / name / "weights" for name in ("one", "two")}
    for name, file in weights.items():
        file.parent.mkdir()
        file.write_text(f"hash-of-{name}")
    with Workbench.open(folder) as bench:
        bench.ingest()
        expected = bench.retrieve("brake").hits
        assert expected
        assert str(tmp_path) not in bench.project.models.embedder_identity("onnx:one")
    assert FromFile.opened == [(str((folder / "one").resolve()), "find: ")]

    def refused(settings: str, *overrides: str) -> tuple[str, str]:
        make(settings)
        with Workbench.open(folder, Session(overrides)) as bench:
            with pytest.raises(RetrieveError) as told:
                bench.retrieve("brake")
            return told.value.what, told.value.hint or ""

    what, hint = refused(TWO)
    assert "was that of identity onnx:hash-of-one" in what
    assert "now it is onnx:two (identity onnx:hash-of-two" in what
    assert hint == BACK
    over = ("chunk.by=whole", "retrieve.top_k=3", "embed.model=onnx:two")
    _, hint = refused(ONE, *over)
    words = "run: ragwright ingest --set chunk.by=whole --set embed.model=onnx:two, or"
    assert hint.startswith(words), "the command repeats settings that the index depends on"
    weights["one"].write_text("hash-of-three")
    what, _ = refused(ONE)
    assert "identity onnx:hash-of-one" in what
    assert "now it is onnx:one (identity onnx:hash-of-three" in what
    weights["one"].write_text("hash-of-one")
    assert "now it is none" in refused("")[0]
    what, hint = refused(f"{ONE}\nchunk: {{by: whole}}")
    assert "chunks were cut as" in what
    what, _ = refused(f"{ONE}\nchunk: {{size: 150}}")
    assert "chunks were cut as size=400, now it is size=150" in what, "only what differs"
    assert "the embedding model was" not in what

    make(ONE)  # the index stayed, whatever was refused
    with monkeypatch.context() as patch, Workbench.open(folder) as bench:
        patch.setattr("ragwright.index.SqliteStore.view", fail)
        found = bench.retrieve("brake")
    assert found.hits == expected, "the read view fails, and the stored rows answer"
    (note,) = (note for note in found.notes if "a second index" in note)
    assert "MemoryError: no room for the view" in note


def fail(*_: object, **__: object) -> None:
    raise MemoryError("no room for the view")
