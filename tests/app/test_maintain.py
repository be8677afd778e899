"""`ragwright maintain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright


@pytest.mark.parametrize("kind", ["sqlite", "lance"])
def test_maintenance_by_the_command_and_by_a_job(tmp_path: Path, kind: str) -> None:
    if kind == "lance":
        pytest.importorskip("lancedb", reason="needs the extra lance")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# Brakes\n\nBrake fluid is changed every two years.\n")
    (tmp_path / "ragwright.yaml").write_text(
        f"sources: [docs]\nstore: {{kind: {kind}, maintain: command}}\n"
        "jobs: {upkeep: {steps: [maintain], schedule: '@hourly'}}\n"
    )
    ragwright(tmp_path, "ingest", "-q")
    found = json.loads(ragwright(tmp_path, "maintain", "--json").stdout)
    assert found["kind"] == kind
    assert found["indexes"] == 1
    done = ragwright(tmp_path, "maintain")
    assert done.stdout.startswith("1 index maintained")
    assert ("nothing was done" in done.stderr) == (kind == "sqlite")
    ragwright(tmp_path, "job", "run", "upkeep")
    hits = json.loads(ragwright(tmp_path, "retrieve", "brake fluid", "--json").stdout)["hits"]
    assert hits[0]["source"] == "docs/a.md"


def test_another_way_of_maintenance_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("store: {kind: lance, maintain: nightly}\n")
    assert "one of ingest, command" in ragwright(tmp_path, "maintain", code=1).stderr
