"""`records check` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright.project import init_project


@pytest.mark.slow
def test_the_command_ends_by_its_faults_and_takes_other_sources(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    done = ragwright(tmp_path, "records", "check", "--rows", "20", "--json")
    found = json.loads(done.stdout)
    assert (found["scanned"], found["rows"], found["faults"]) == (62, 20, [])
    (tmp_path / "other.csv").write_text("n,words\n1,please donate\n", "utf-8")
    other = ("--source", "other.csv", "--key", "n", "--text", "words")
    told = ragwright(tmp_path, "records", "check", *other, code=1).stdout
    assert "the source has no column 'sender'" in told
    assert "records/rollups.yaml:5" in told
    assert "donation ask" in told
