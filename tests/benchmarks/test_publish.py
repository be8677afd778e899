"""Figures become pages, and no page says what its figures do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.publish import Row, Section, Table, publish, render, stale


def test_a_section_is_stored_and_shown(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"tool": "ours", "hit@1": 0.95432, "n": 300},
        {"tool": "a|b", "hit@1": None, "p": "x"},
    ]
    section = Section(
        "Codes",
        (Table(rows, "Own page"),),
        notes=("One run.",),
        command="python -m benchmarks.codes",
        data={"ours": 0.95432},
    )
    page = publish("codes", section, tmp_path)
    text = page.read_text("utf-8")
    assert "## Codes" in text
    assert "```bash no-run\npython -m benchmarks.codes\n```" in text
    assert "| tool | hit@1 | n | p |" in text
    assert "| ours | 0.954 | 300 |  |" in text
    assert r"| a\|b |  |  | x |" in text
    assert "- One run." in text
    stored = json.loads((tmp_path / "codes.json").read_text("utf-8"))
    assert stored["data"] == {"ours": 0.95432}
    assert stored["measured"]
    assert "numpy" in stored["conditions"]


def test_sections_stand_in_their_order(tmp_path: Path) -> None:
    for name, order in (("b", 50), ("a", 50), ("z", 1)):
        publish(name, Section(f"Section {name}", (), order=order), tmp_path)
    heads = [line for line in render("retrieval", tmp_path).splitlines() if line.startswith("## ")]
    assert heads == ["## Section z", "## Section a", "## Section b"]


def test_a_page_edited_by_hand_is_stale(tmp_path: Path) -> None:
    page = publish("codes", Section("Codes", (Table([{"ours": 0.5}]),)), tmp_path)
    assert stale(tmp_path) == []
    page.write_text(page.read_text("utf-8").replace("0.500", "0.900"), "utf-8")
    assert stale(tmp_path) == ["retrieval"]


def test_an_unknown_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no page 'other'"):
        publish("codes", Section("Codes", (), page="other"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_committed_pages_follow_from_the_committed_figures() -> None:
    assert stale() == []
