"""Results in a notebook: short text, escaped HTML, data frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragwright
from ragwright import Workbench
from ragwright.project import init_project

ROWS: list[dict[str, Any]] = [
    {
        "question": "Who <b>?",
        "answer": "<script>alert(1)</script>",
        "ground_truth": "a mechanic",
        "contexts": ["By a mechanic."],
    },
    {"question": "When?", "answer": "now " * 500, "ground_truth": "now"},
]


def test_an_evaluation_is_short_as_text_and_escaped_as_html() -> None:
    found = ragwright.evaluate(ROWS, "TokenF1, KPrecision")
    assert repr(found).startswith("<Evaluation 'rows': 2 rows; TokenF1 0.")
    assert len(repr(found)) < 120
    html = found._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "Who &lt;b&gt;?" in html
    assert len(html) < 3000


def test_an_evaluation_is_a_data_frame() -> None:
    frame = ragwright.evaluate(ROWS, "TokenF1, KPrecision").to_pandas()
    assert list(frame["user_input"]) == ["Who <b>?", "When?"]
    assert frame["TokenF1"].notna().all()
    assert frame["KPrecision state"][1] == "not_applicable"
    assert frame["retrieved_contexts"][0] == ["By a mechanic."]
    again = ragwright.evaluate(frame, "TokenF1")  # a frame of results is rows again
    assert again["TokenF1"].mean == pytest.approx(frame["TokenF1"].mean())


def test_hits_and_answers(tmp_path: Path) -> None:
    init_project(tmp_path)
    (tmp_path / "a.md").write_text("# Oil\n\nChange the <oil> & the filter every year.\n", "utf-8")
    with Workbench.open(tmp_path) as wb:
        wb.ingest(tmp_path / "a.md")
        found, answer = wb.retrieve("oil", k=1), wb.ask("When is the oil changed?")
    assert repr(found).startswith("<Retrieved 'oil': 1 hit, the first <Hit 1 ")
    assert "Change the &lt;oil&gt; &amp; the filter" in found._repr_html_()
    assert repr(answer).startswith("<Answer ")
    assert "<oil>" not in answer._repr_html_()
    assert "a.md" in answer._repr_html_()
    assert list(found.to_pandas()["rank"]) == [1]
