"""`ragwright snapshots`: list, diff, restore, and what forgetting does to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

STORES = [
    "sqlite",
    pytest.param(
        "lance",
        marks=pytest.mark.slow,
    ),
]


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path, kind: str) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "brake.md").write_text("# Brake\n\nThe brake is checked yearly.\n", "utf-8")
    (docs / "lamp.md").write_text("# Lamp\n\nThe lamp is checked monthly.\n", "utf-8")
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "desk.yaml").write_text("name: desk\naudience: help desk\n", "utf-8")
    head = f"sources: [docs]\nstore: {{kind: {kind}}}\n"
    (tmp_path / "ragwright.yaml").write_text(head, "utf-8")
    ragwright(tmp_path, "ingest")
    (docs / "brake.md").write_text("# Brake\n\nThe brake is checked weekly.\n", "utf-8")
    (docs / "lamp.md").unlink()
    (docs / "horn.md").write_text("# Horn\n\nThe horn is never checked.\n", "utf-8")
    (tmp_path / "ragwright.yaml").write_text(f"{head}retrieve: {{top_k: 3}}\n", "utf-8")
    (tmp_path / "personas" / "desk.yaml").write_text("name: desk\naudience: drivers\n", "utf-8")
    ragwright(tmp_path, "ingest", "--prune")
    return tmp_path


def document(folder: Path, *words: str) -> Any:
    return json.loads(ragwright(folder, *words, "--json").stdout)


def texts(folder: Path, query: str) -> list[str]:
    return [hit["text"] for hit in document(folder, "retrieve", query)["hits"]]


def test_a_state_is_listed_compared_restored_and_undone(project: Path) -> None:
    states = document(project, "snapshots", "list")["snapshots"]
    assert [(s["number"], s["documents"], s["note"]) for s in states] == [
        (1, 2, "ingest"),
        (2, 2, "ingest"),
    ]
    expected = {
        "added": ["docs/horn.md"],
        "changed": ["docs/brake.md"],
        "removed": ["docs/lamp.md"],
        "settings": {"retrieve.top_k": {"before": None, "after": 3}},
        "files": {"personas/desk.yaml": "changed", "ragwright.yaml": "changed"},
    }
    assert document(project, "snapshots", "diff", "1", "2") == expected
    assert document(project, "snapshots", "diff", "1") == expected

    done = ragwright(project, "snapshots", "restore", "1", "--index-only")
    assert "restored snapshot 1" in done.stdout
    assert "stay as they are" in done.stderr
    assert "retrieve.top_k: 3 → default (5)" in done.stdout
    assert "top_k: 3" in (project / "ragwright.yaml").read_text("utf-8")
    assert any("monthly" in text for text in texts(project, "lamp"))
    assert any("yearly" in text for text in texts(project, "brake"))
    assert not any("horn" in text for text in texts(project, "checked"))

    ragwright(project, "snapshots", "restore", "2")
    assert any("weekly" in text for text in texts(project, "brake"))
    assert not document(project, "snapshots", "diff", "2")["changed"]

    ragwright(project, "snapshots", "restore", "1")
    again = ragwright(project, "ingest", "--prune")  # the sources are the truth
    assert "1 added, 1 changed" in again.stdout
    assert "1 removed" in again.stdout


def test_forgetting_a_document_reaches_its_former_versions(project: Path) -> None:
    ragwright(project, "forget", "docs/lamp.md")  # removed by the last ingest already
    ragwright(project, "forget", "docs/brake.md")
    ragwright(project, "snapshots", "restore", "1")
    empty = ragwright(project, "retrieve", "lamp brake checked", code=1)
    assert "nothing is indexed" in empty.stderr
    data = [p.read_bytes() for p in (project / ".ragwright").rglob("*") if p.is_file()]
    assert not any(b"monthly" in raw or b"yearly" in raw or b"weekly" in raw for raw in data)


def test_what_cannot_be_restored_is_refused(project: Path) -> None:
    for words, message in (
        (("diff", "9"), "there is no snapshot 9"),
        (("diff", "x"), "'x' is not the number of a snapshot"),
        (("restore", "now"), "'now' is not the number"),
    ):
        assert message in ragwright(project, "snapshots", *words, code=1).stderr


def test_settings_prompts_and_personas_come_back_and_what_was_there_is_copied(
    project: Path,
) -> None:
    settings, persona = project / "ragwright.yaml", project / "personas" / "desk.yaml"
    (project / "personas" / "new.yaml").write_text("name: new\n", "utf-8")
    newer = settings.read_text("utf-8")
    done = document(project, "snapshots", "restore", "1")
    assert set(done["written"]) == {"ragwright.yaml", "personas/desk.yaml"}
    assert "top_k" not in settings.read_text("utf-8")
    assert "help desk" in persona.read_text("utf-8")
    assert (project / done["written"]["ragwright.yaml"]).read_text("utf-8") == newer
    assert done["files"]["personas/new.yaml"] == "removed"
    assert (project / "personas" / "new.yaml").exists()
    diff = document(project, "snapshots", "diff", "1")
    assert not diff["settings"]
    assert diff["files"] == {"personas/new.yaml": "added"}

    ragwright(project, "snapshots", "restore", "2")
    assert settings.read_text("utf-8") == newer
    assert "drivers" in persona.read_text("utf-8")


def test_a_file_that_cannot_be_written_is_named(project: Path) -> None:
    shutil.rmtree(project / "personas")
    (project / "personas").write_text("in the way", "utf-8")
    refused = ragwright(project, "snapshots", "restore", "1", code=1)
    assert "the index is restored, but this file cannot be written" in refused.stderr
    assert "personas/desk.yaml" in refused.stderr


def test_a_file_outside_the_project_is_not_written(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("shared") / "personas"
    (project / "personas").rename(outside)
    (project / "personas").symlink_to(outside)
    before = (outside / "desk.yaml").read_bytes()
    refused = ragwright(project, "snapshots", "restore", "1", code=1)
    assert "the snapshot names a file outside the project" in refused.stderr
    assert (outside / "desk.yaml").read_bytes() == before
    assert not any("monthly" in text for text in texts(project, "lamp"))
    ragwright(project, "snapshots", "restore", "1", "--index-only")
    assert any("monthly" in text for text in texts(project, "lamp"))


def test_settings_that_changed_since_the_last_state_are_kept(project: Path) -> None:
    settings = project / "ragwright.yaml"
    newest = settings.read_text("utf-8").replace("top_k: 3", "top_k: 4")
    settings.write_text(newest, "utf-8")
    ragwright(project, "snapshots", "restore", "1")
    ragwright(project, "snapshots", "restore", "3")
    assert settings.read_text("utf-8") == newest


def test_other_chunk_settings_have_states_of_their_own(project: Path) -> None:
    text = (project / "ragwright.yaml").read_text("utf-8")
    text += "chunk: {size: 100, overlap: 10}\n"
    (project / "ragwright.yaml").write_text(text, "utf-8")
    ragwright(project, "ingest")
    [state] = document(project, "snapshots", "list")["snapshots"]
    assert state["number"] == 3
    refused = ragwright(project, "snapshots", "restore", "1", code=1)
    assert "no snapshot 1 of the present settings" in refused.stderr
