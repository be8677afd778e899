"""Ids of documents outside the project folder, and what an ingest that reads nothing says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.workbench import Workbench

TEXT = "The brake fluid must be changed every two years."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project beside a folder of documents."""
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "service.md").write_text(TEXT)
    (tmp_path / "docs" / "deep" / "codes.md").write_text("APP_w304: the pedal sensor failed.")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "inside").mkdir()
    (tmp_path / "work" / "inside" / "note.md").write_text("The coolant is changed yearly.")
    (tmp_path / "work" / "ragwright.yaml").write_text("sources: [../docs, inside]\n")
    return tmp_path


def ids(folder: Path) -> list[str]:
    with Workbench.open(folder / "work") as bench:
        return sorted(document.id for document in bench.documents())


EXPECTED = ["../docs/deep/codes.md", "../docs/service.md", "inside/note.md"]


@pytest.mark.parametrize("written", ["../docs", "../docs/", "ABSOLUTE", "../docs/**/*.md"])
def test_ids_do_not_depend_on_how_the_folder_is_written(folder: Path, written: str) -> None:
    source = written.replace("ABSOLUTE", str(folder / "docs"))
    (folder / "work" / "ragwright.yaml").write_text(f"sources: ['{source}', inside]\n")
    ragwright(folder / "work", "ingest", "-q")
    assert ids(folder) == EXPECTED


def test_ids_do_not_depend_on_where_the_command_is_run(folder: Path) -> None:
    ragwright(folder, "ingest", "docs", "work/inside", "-C", "work", "-q")
    assert ids(folder) == EXPECTED
    again = json.loads(ragwright(folder / "work", "ingest", "--json").stdout)
    assert again["documents"]["unchanged"] == 3
    assert again["documents"]["added"] == 0


def test_a_project_moved_with_its_documents_keeps_its_gold(folder: Path, tmp_path: Path) -> None:
    gold = [{"user_input": "brake fluid", "reference_ids": ["../docs/service.md"]}]
    (folder / "work" / "set.jsonl").write_text("\n".join(map(json.dumps, gold)))
    other = tmp_path / "another machine"
    other.mkdir()
    for name in ("docs", "work"):
        (folder / name).rename(other / name)
    ragwright(other / "work", "ingest", "-q")
    asked = ("eval", "--testset", "set.jsonl", "--retrieval-only", "--measures", "Recall@5")
    told = json.loads(ragwright(other / "work", *asked, "--json").stdout)
    assert told["measures"]["Recall@5"]["mean"] == 1.0


@pytest.mark.slow
def test_an_ingest_of_which_nothing_could_be_read_is_an_error(folder: Path) -> None:
    (folder / "work" / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    done = ragwright(folder / "work", "ingest", "broken.pdf", "nosuch", code=1)
    assert "0 added" in done.stdout
    assert done.stdout.count("failed:") == 2
    ragwright(folder / "work", "ingest", "broken.pdf", "inside", code=0)
    ragwright(folder / "work", "ingest", "broken.pdf", "inside", "--strict", code=1)


def test_a_ragged_table_that_was_read_is_a_warning(folder: Path) -> None:
    rows = ["a,b,c"] + [f"{n},{n},{n}" for n in range(9)] + ["1,2"]
    (folder / "work" / "inside" / "table.csv").write_text("\n".join(rows))
    told: Any = json.loads(ragwright(folder / "work", "ingest", "--json", "--strict").stdout)
    assert told["documents"]["added"] == 4
    assert told["documents"]["failed"] == 0
    assert told["failures"] == []
    [warning] = told["warnings"]
    assert warning["source"] == "inside/table.csv"
    assert "row 11 has 2" in warning["reason"]
    again = ragwright(folder / "work", "ingest").stdout
    assert "1 with warnings" in again
