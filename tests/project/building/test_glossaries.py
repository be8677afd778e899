"""The glossary of a project: mined once a snapshot, read once a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, Document
from ragwright.project import project_glossary


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


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


def test_an_empty_glossary_is_kept_too(make_project: MakeProject) -> None:
    with Workbench.open(make_project(**{"plain.md": "The brake fluid is old.\n"})) as bench:
        bench.ingest()
        store = Counted(bench)
        root, cache = bench.project.folder.root, bench.project.folder.cache
        for _ in range(3):
            found = project_glossary("corpus", root, cache, store, bench.project.index_spec)  # type: ignore[arg-type]
            assert not found.entries
        assert store.read == 1


def test_a_kept_glossary_is_read_once(make_project: MakeProject) -> None:
    with Workbench.open(make_project()) as bench:
        bench.ingest()
        store = Counted(bench)
        root, cache = bench.project.folder.root, bench.project.folder.cache

        def glossary(setting: str = "corpus") -> object:
            return project_glossary(setting, root, cache, store, bench.project.index_spec)  # type: ignore[arg-type]

        mined = glossary()
        read = glossary()
        assert read == mined
        assert glossary() is read  # the very object: nothing was read or mined for it
        assert store.read == 1


def test_a_given_file_is_read_again_where_it_changed(make_project: MakeProject) -> None:
    with Workbench.open(make_project()) as bench:
        bench.ingest()
        root, cache = bench.project.folder.root, bench.project.folder.cache
        file = root / "g.yaml"
        for number, text in enumerate(("XK9: one", "XK9: two")):
            file.write_text(text)
            os.utime(file, (number, number))
            found = project_glossary(
                "g.yaml", root, cache, bench.project.store, bench.project.index_spec
            )
            assert found.entries["XK9"][0].text in text
        file.write_text("{}")
        with pytest.raises(ConfigError, match="terms"):
            project_glossary("g.yaml", root, cache, bench.project.store, bench.project.index_spec)
        with pytest.raises(ConfigError, match="does not exist"):
            project_glossary("h.yaml", root, cache, bench.project.store, bench.project.index_spec)
