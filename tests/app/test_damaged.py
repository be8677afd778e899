"""Stored files that are damaged: the command says which, what is lost and how to go on."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from command_line import Done, ragwright as called

from ragwright.testing import ScriptedServer

KINDS = ("cut", "header", "flipped", "sprinkled", "zeroed", "version", "folder", "foreign")


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("Lathes turn wood. [1]") as running:
        yield running


@pytest.fixture(scope="module")
def written(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with files, a store and replies of some pages each."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    for number in range(30):
        words = " ".join(f"word{number * at % 97} lathe" for at in range(200))
        (folder / "docs" / f"{number}.md").write_text(f"# Title {number}\n\n{words}\n", "utf-8")
    text = f'sources: [docs]\nanswer:\n  model: "{server.url}#scripted"\n'
    (folder / "ragwright.yaml").write_text(text, "utf-8")
    called(folder, "ingest", "-q")
    for number in range(12):
        called(folder, "ask", f"What turns wood, {number}?", "-q")
    return folder


@pytest.fixture
def project(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "project"))


def damage(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    rng = random.Random(f"{path.name} {kind}")
    if kind == "cut":
        path.write_bytes(data[: len(data) // 2 + 17])
    elif kind == "header":
        path.write_bytes(rng.randbytes(100) + data[100:])
    elif kind in ("flipped", "sprinkled"):
        places = range(4096, len(data), 997)
        for at in places if kind == "flipped" else rng.sample(range(100, len(data)), 60):
            data[at] ^= rng.randrange(1, 256)
        path.write_bytes(data)
    elif kind == "zeroed":
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif kind == "version":
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 99")
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
        else:
            foreign(path)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs (x)")


def told(project: Path, name: str, *words: str) -> Done | None:
    """What a command says that refuses; None where it did its work."""
    try:
        done = called(project, *words)
    except AssertionError:
        done = called(project, *words, code=1)
    assert "Traceback" not in done.stderr
    if not done.returncode:
        return None
    assert name in done.stderr
    assert "do: " in done.stderr
    assert "lathe" not in done.stderr, "no stored text in a message"
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_store_is_refused_and_not_replaced(project: Path, kind: str) -> None:
    path = project / ".ragwright" / "data" / "store.sqlite"
    damage(path, kind)
    before = path.read_bytes() if path.is_file() else b""
    refused = [
        told(project, "store.sqlite", *words)
        for words in (("ask", "What turns?", "-q"), ("ingest", "-q"), ("forget", "docs/3.md"))
    ]
    if kind != "sprinkled":  # what is damaged may not be what a command reads
        assert all(refused)
        assert not path.is_file() or path.read_bytes() == before


@pytest.mark.slow
def test_an_emptied_store_is_not_taken_for_a_new_one(project: Path) -> None:
    path = project / ".ragwright" / "data" / "store.sqlite"
    path.write_bytes(b"")
    refused = told(project, "store.sqlite", "ingest", "-q")
    assert refused is not None
    assert "is empty" in refused.stderr
    assert path.read_bytes() == b""
    path.unlink()
    called(project, "ingest", "-q")
    called(project, "retrieve", "lathe", "-q")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_replies_are_cleared_by_the_command_that_is_named(project: Path, kind: str) -> None:
    path = project / ".ragwright" / "cache" / "replies.sqlite"
    damage(path, kind)
    for words in (("ask", "What turns wood, 3?", "-q"), ("cache", "show"), ("forget", "docs/3.md")):
        refused = told(project, "replies.sqlite", *words)
        if refused is not None and kind not in ("version", "folder", "foreign"):
            assert "ragwright cache clear" in refused.stderr
    if kind in ("version", "folder", "foreign"):
        return
    called(project, "cache", "clear")
    called(project, "ask", "What turns wood, 3?", "-q")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sprinkled"])
def test_a_damaged_ledger_is_refused_and_not_replaced(project: Path, kind: str) -> None:
    called(project, "outputs", "list")
    path = project / ".ragwright" / "data" / "ledger.sqlite"
    damage(path, kind)
    before = path.read_bytes() if path.is_file() else b""
    for words in (("outputs", "list"), ("job", "history"), ("report",), ("forget", "docs/3.md")):
        refused = told(project, "ledger.sqlite", *words)
        assert refused is not None
        if kind in ("cut", "header", "zeroed"):
            assert "restore it from a backup, or move it away" in refused.stderr
    assert not path.is_file() or path.read_bytes() == before
    called(project, "ask", "What turns wood, 3?", "-q")  # needs none of it


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
def test_damaged_file_stamps_are_begun_anew(project: Path, kind: str) -> None:
    path = project / ".ragwright" / "cache" / "files.sqlite"
    damage(path, kind)
    called(project, "ingest", "-q")
    called(project, "ingest", "-q")


@pytest.mark.slow
def test_another_programs_file_is_refused_before_it_is_changed(project: Path) -> None:
    """Not a byte of it; to ask for the journal mode rewrites the header."""
    path = project / "theirs.sqlite"
    foreign(path)
    before = path.read_bytes()
    words = ("ingest", "-q", "--set", "store.path=theirs.sqlite")
    refused = called(project, *words, code=1)
    assert "not a ragwright store" in refused.stderr
    assert path.read_bytes() == before
    assert not list(project.glob("theirs.sqlite-*"))


def test_the_path_of_the_store_starts_from_the_project_folder(project: Path) -> None:
    words = ("-q", "--set", "store.path=kept/mine.sqlite")
    called(project, "ingest", *words)
    assert (project / "kept" / "mine.sqlite").is_file()
    called(project, "retrieve", "lathe", *words)
