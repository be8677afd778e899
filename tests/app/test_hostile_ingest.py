"""Ingest of hostile folders: what can be read is indexed, and no filter is crossed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import ragwright as called
from small_project import MakeProject

from ragwright import Workbench


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


def test_odd_names_and_links_to_themselves_cost_only_themselves(make_project: MakeProject) -> None:
    folder = make_project()
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/docs/bad\xff.md"))
    odd.write_text("# Odd\n\nText.\n", "utf-8")
    (folder / "docs/self").symlink_to("self")
    told = json.loads(called(folder, "ingest", "--json").stdout)
    assert told["documents"]["added"] == 2
    assert [f["source"] for f in told["failures"]] == [r"docs/bad\xff.md", "docs/self"]
    assert called(folder, "ingest").stdout.startswith("documents: 0 added, 0 changed, 2 unchanged")


def test_skipped_links_are_told_and_pruned(make_project: MakeProject, tmp_path: Path) -> None:
    folder = make_project()
    (tmp_path / "secret.md").write_text("# Secret\n\nThe secret text.\n", "utf-8")
    (folder / "docs/link.md").symlink_to("../../secret.md")
    allowed = ("--set", "sources=[{source: docs/, follow_links: true}]")
    assert (
        json.loads(called(folder, "ingest", "--json", *allowed).stdout)["documents"]["added"] == 3
    )
    told = json.loads(called(folder, "ingest", "--json", "--prune", "--strict").stdout)
    assert (told["documents"]["failed"], told["documents"]["removed"]) == (0, 1)
    [skipped] = told["skipped"]
    assert skipped["source"] == "docs/link.md"
    assert "follow_links" in skipped["do"]
    shown = called(folder, "ingest").stdout
    assert "0 failed, 1 skipped" in shown
    assert "skipped: docs/link.md" in shown


def test_a_document_with_broken_front_matter_passes_no_filter(make_project: MakeProject) -> None:
    private = "---\nvisibility: private\ncreated: {}\n---\n\n# Salaries\n\nSalaries of {}.\n"
    folder = make_project(
        "retrieve: {filters: [{field: visibility, values: [private], exclude: true}]}\n",
        **{
            "public.md": "# Salaries\n\nSalaries are paid monthly.\n",
            "kept.md": private.format("2024-01-31", "last year"),
        },
    )
    with Workbench.open(folder) as bench:
        assert bench.ingest().failures == ()
        before = {d.id: d for d in bench.documents()}
    (folder / "docs/kept.md").write_text(private.format("2024-99-99", "this year"), "utf-8")
    (folder / "docs/new.md").write_text(private.format("2024-99-99", "next year"), "utf-8")
    with Workbench.open(folder) as bench:
        report = bench.ingest(prune=True)
        assert [f.source for f in report.failures] == ["docs/kept.md", "docs/new.md"]
        assert {d.id: d for d in bench.documents()} == before
        assert [hit.document_id for hit in bench.retrieve("salaries").hits] == ["docs/public.md"]
