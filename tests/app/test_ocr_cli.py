"""OCR on the command line: what `ingest` notes, and how an answer cites a scan."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from made_scans import LEFT, page, saved


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/letter.png").write_bytes(saved(page(LEFT)))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")

    def run(*arguments: str) -> Any:
        return ragwright(tmp_path, *arguments)

    return run


@pytest.mark.slow
def test_answers_name_the_ocr_and_unchanged_scans_cost_nothing(
    project: Callable[..., Any], tmp_path: Path
) -> None:
    first = project("ingest")
    assert "OCR read 1 page of 1 file" in first.stdout
    said = project("ask", "How often must the brake fluid be changed?")
    assert "docs/letter.png, characters 0-" in said.stdout
    assert "(OCR, confidence 0.9" in said.stdout or "(OCR, confidence 1.0" in said.stdout
    answer = json.loads(project("ask", "How often must brake fluid be changed?", "--json").stdout)
    assert 0.9 < answer["answers"][0]["citations"][0]["ocr"] <= 1
    # A file is read again if it changed within 2 s before it was read.
    time.sleep(max(0.0, (tmp_path / "docs/letter.png").stat().st_ctime + 2.1 - time.time()))
    project("ingest")
    assert "OCR" not in project("ingest").stdout
    (tmp_path / "ragwright.yaml").write_text(
        "sources: [{source: docs, ocr_pixels: 300000}]\n", "utf-8"
    )
    assert "OCR read 1 page" in project("ingest").stdout
