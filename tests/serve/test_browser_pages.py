"""The pages in a real browser: streaming, citations, keyboard, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import needs_browser, opened
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer

pytest.importorskip("fastapi")
pytestmark = needs_browser

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    hostile = "Every two years 🚗 [1]. <img src=x onerror=alert(1)> See the codes [2] " * 3
    with ScriptedServer(Reply(hostile, pace=0.01)) as model:
        folder = MakeProject(tmp_path_factory.mktemp("pages"))(
            f"serve: {{name: handbook}}\nanswer: {{model: '{model.url}#writer'}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as server:
            yield server


def test_answers_stream_side_by_side_and_citations_open_the_passage(
    browser: Any, running: Running
) -> None:
    faults: list[str] = []
    page = opened(browser, running.address, faults)
    page.fill("#q", QUESTION)
    page.check("input[value=marketing]")
    page.press("#q", "Control+Enter")
    page.wait_for_selector(".card .cited >> nth=1", timeout=20_000)
    page.wait_for_selector("#answers[aria-busy=false]", timeout=20_000)
    assert page.locator(".card").count() == 2
    marks = page.locator(".card >> nth=0").locator(".answer a.mark")
    assert marks.all_inner_texts() == ["[1]", "[2]"] * 3
    assert "<img src=x" in page.locator(".answer >> nth=0").inner_text(), "shown, not run"
    page.wait_for_selector(".why")
    marks.first.click()
    page.wait_for_selector("mark#passage")
    assert "/source?" in page.url
    assert not faults
    page.close()


def test_pages_are_small(running: Running) -> None:
    parts = ("/", "/static/pages.css", "/static/pages.js", "/static/htmx.min.js")
    assert sum(len(running.http.get(path).content) for path in parts) < 150_000
