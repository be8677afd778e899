"""`ragwright backup`: one archive with checksums; unpacking it is the restore."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import StoreDamagedError
from ragwright.jobs import check_backup
from ragwright.ledger import WorkLock
from ragwright.testing import ScriptedServer

QUESTION = "When is the brake fluid changed?"


def told(project: Path, *words: str, code: int | None = 0) -> Any:
    return json.loads(ragwright(project, *words, "--json", code=code).stdout)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)()
    ragwright(folder, "ingest", "-q")
    ragwright(folder, "ask", QUESTION, "-q")
    ragwright(folder, "keys", "add", "app")
    (folder / "left.md").symlink_to(folder / "docs" / "codes.md")
    return folder


def test_an_unpacked_backup_answers_as_the_project_does(project: Path, tmp_path: Path) -> None:
    archive = tmp_path / "project.zip"
    written = told(project, "backup", str(archive))
    assert archive.stat().st_mode & 0o777 == 0o600
    assert {*written["left_out"]} == {"left.md", ".ragwright/cache"}
    assert told(tmp_path, "backup", str(archive), "--check") == written
    before = told(project, "retrieve", QUESTION)["hits"]
    listed = ragwright(project, "keys", "list").stdout
    shutil.rmtree(project)
    shutil.unpack_archive(archive, project)
    assert told(project, "retrieve", QUESTION)["hits"] == before
    assert ragwright(project, "keys", "list").stdout == listed
    report = told(project, "ingest")
    assert report["documents"]["unchanged"] == 2
    again = told(project, "backup", str(project / "again.zip"))
    assert again["files"] == written["files"]
    assert not list(project.glob(".backup-*"))


def test_a_damaged_archive_is_found(project: Path, tmp_path: Path) -> None:
    archive = tmp_path / "project.zip"
    ragwright(project, "backup", str(archive), "-q")
    content = archive.read_bytes()
    assert "exists already" in ragwright(project, "backup", str(archive), code=1).stderr
    assert archive.read_bytes() == content
    with zipfile.ZipFile(archive, "a") as added:
        added.writestr("docs/added.md", "not of the project")
    assert "docs/added.md" in ragwright(project, "backup", str(archive), "--check", code=1).stderr
    for kept, text in (("", "changed"), ("docs/codes.md", "")):  # changed; missing
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
            for name in old.namelist():
                if name != kept:
                    new.writestr(name, text if name == "docs/codes.md" else old.read(name))
        with pytest.raises(StoreDamagedError, match=r"docs/codes\.md"):
            check_backup(archive)
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreDamagedError):
        check_backup(archive)
    archive.write_text("no archive")
    assert "no backup" in ragwright(project, "backup", str(archive), "--check", code=1).stderr


def test_nobody_writes_while_it_is_made(project: Path, tmp_path: Path) -> None:
    with WorkLock(project / ".ragwright" / "data" / "work").alone("forget"):
        busy = ragwright(project, "backup", str(tmp_path / "busy.zip"), code=1)
    assert "forget" in busy.stderr
    assert not (tmp_path / "busy.zip").exists()


def test_what_lies_elsewhere_is_named(project: Path, tmp_path: Path) -> None:
    ragwright(project, "ingest", "-q", "--set", "store.path=../elsewhere.sqlite")
    archive = tmp_path / "project.zip"
    written = told(project, "backup", str(archive), "--set", "store.path=../elsewhere.sqlite")
    assert "own tools" in written["left_out"]["../elsewhere.sqlite"]


def test_documents_removed_by_mistake_come_back_without_embedding(tmp_path: Path) -> None:
    with ScriptedServer() as model:
        folder = MakeProject(tmp_path)(f"embed: {{model: '{model.url}#e'}}\n")

        def embedded() -> int:
            return sum("/embeddings" in request.path for request in model.requests)

        ragwright(folder, "ingest", "-q")
        paid = embedded()
        assert paid
        (folder / "docs").rename(folder / "away")
        (folder / "docs").mkdir()
        (folder / "docs" / "other.md").write_text("Another document.", "utf-8")
        with Workbench.open(folder) as bench:
            assert bench.ingest(prune=True).counts.removed == 2
        added = embedded()
        shutil.rmtree(folder / "docs")
        (folder / "away").rename(folder / "docs")
        with Workbench.open(folder) as bench:
            assert bench.ingest(prune=True).counts.added == 2
        assert embedded() == added
