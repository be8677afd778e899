"""Experiments in a real browser: a running sweep, its end, and two runs row by row."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from browsing import opened, until
from children import command, started
from served import served
from small_project import MakeProject

from ragwright import Evaluating, Session, Workbench
from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

TEXT = " ".join(
    f"## Part {n}\n\nThe part {n} is changed every {n + 2} years, and it weighs {3 * n} grams.\n\n"
    for n in range(14)
)
ROWS = "\n".join(
    json.dumps({"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"{n} 9"})
    for n in range(6)
)
STUDY = """
study: {testset: set.jsonl, measures: TokenF1}
chunk: {size: [20, 40, 60, 80], overlap: 0}
prompt: {without: [[], [role], [tailor]]}
"""


def test_a_running_sweep_is_watched_and_stopped(browser: Any, tmp_path: Path) -> None:
    with ScriptedServer(Reply("Every 3 years [1].", delay=1.2)) as model:
        name = f"{model.url}#m"
        folder = MakeProject(tmp_path)(
            f"serve: {{name: parts}}\nanswer: {{model: '{name}'}}\n"
            f"models: {{'{name}': {{price_in: 1000, price_out: 2000}}}}\n",
            **{"parts.md": TEXT},
        )
        (folder / "set.jsonl").write_text(ROWS)
        (folder / "s.yaml").write_text(STUDY)
        with Workbench.open(folder) as bench:
            bench.ingest()
        process = started(command, folder, "sweep", "s.yaml", "-q", "-j", "2")
        faults: list[str] = []
        with served(folder) as running:
            page = opened(browser, f"{running.address}/experiments", faults)
            page.wait_for_selector("td .state-running", timeout=60_000)
            page.click("th[scope=row] a")
            page.wait_for_selector("progress")
            before = page.locator("dl.figures >> nth=0").inner_text()
            changed = "before => document.querySelector('dl.figures').innerText !== before"
            until(page, changed, before)
            # The page follows without being loaded again.
            until(
                page,
                "() => [...document.querySelectorAll('dl.figures div')].some("
                "one => one.innerText.includes('Spent') && +one.querySelector('dd').innerText > 0)",
            )
            page.focus("#stop-sweep")
            page.keyboard.press("Enter")
            page.wait_for_selector(".state-stopping, .state-stopped")
            process.join(60)
            assert process.exitcode == 101
            page.wait_for_selector(".state-stopped", timeout=20_000)
            assert "skipped" in page.locator("main").inner_text()
            assert page.locator("progress").count() == 0
            assert not faults
            page.close()


def test_two_runs_are_compared_by_keyboard_row_by_row(browser: Any, tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {name: parts}\n", **{"parts.md": TEXT})
    (folder / "set.jsonl").write_text(ROWS)
    with chdir(folder):
        for name, size in (("before", 15), ("after", 60)):
            with Workbench.open(".", Session((f"chunk.size={size}", "chunk.overlap=0"))) as bench:
                bench.ingest()
                bench.evaluate(
                    "set.jsonl", "TokenF1,KPrecision", Evaluating(answers=True, name=name)
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
