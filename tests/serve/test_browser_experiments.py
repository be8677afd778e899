"""Experiments in a real browser: two runs row by row."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from served import served
from small_project import MakeProject

from ragwright import EvaluationOptions, Session, Workbench

pytestmark = pytest.mark.slow

TEXT = " ".join(
    f"## Part {n}\n\nThe part {n} is changed every {n + 2} years, and it weighs {3 * n} grams.\n\n"
    for n in range(14)
)
ROWS = "\n".join(
    json.dumps({"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"{n} 9"})
    for n in range(6)
)


def test_two_runs_are_compared_by_keyboard_row_by_row(browser: Any, tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {name: parts}\n", **{"parts.md": TEXT})
    (folder / "set.jsonl").write_text(ROWS)
    with chdir(folder):
        for name, size in (("before", 15), ("after", 60)):
            with Workbench.open(".", Session((f"chunk.size={size}", "chunk.overlap=0"))) as bench:
                bench.ingest()
                bench.evaluate(
                    "set.jsonl", "TokenF1,KPrecision", EvaluationOptions(answers=True, name=name)
                )
    faults: list[str] = []
    with served(folder) as running:
        page = opened(browser, f"{running.address}/experiments", faults)
        assert page.is_checked("input[name=run] >> nth=0"), "the newest run"
        assert page.is_checked("input[name=baseline] >> nth=1"), "against the one before"
        page.focus("text=Compare row by row")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('after compared with before')")
        page.click("text=all")
        first = page.locator("details.line2 >> nth=0")
        first.locator("summary >> nth=0").focus()
        page.keyboard.press("Enter")
        first.locator(".sides.two").wait_for()
        assert first.locator("section").count() == 2
        assert "Every" in first.inner_text() or "changed every" in first.inner_text()
        assert not faults
        page.close()
