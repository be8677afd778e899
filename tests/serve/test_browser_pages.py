"""The pages in a real browser: streaming, citations, keyboard, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import opened, until
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.drafting import OutputQuery
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

pytestmark = pytest.mark.slow

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    hostile = "Every two years 🚗 [1]. <img src=x onerror=alert(1)> See the codes [2] " * 3
    with ScriptedServer(Reply(hostile, pace=0.01)) as model:
        folder = MakeProject(tmp_path_factory.mktemp("pages"))(
            "serve: {name: handbook, personas: [engineer, marketing]}\n"
            f"answer: {{model: '{model.url}#writer'}}\n"
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
    page.check("input[value='*']", force=True)
    page.press("#q", "Enter")
    page.wait_for_selector(".card .cited >> nth=1", timeout=20_000)
    page.wait_for_selector("#turns[aria-busy=false]", timeout=20_000)
    assert page.locator(".card").count() == 2
    marks = page.locator(".card >> nth=0").locator(".answer a.mark")
    assert marks.all_inner_texts() == ["[1]", "[2]"] * 3
    assert "<img src=x" in page.locator(".answer >> nth=0").inner_text(), "shown, not run"
    page.wait_for_selector(".why")
    assert "/#" in page.url, "the conversation has an address in this browser"
    marks.first.click()
    page.wait_for_selector("#beside mark")
    assert "brake fluid" in page.locator("#beside mark").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#beside").is_hidden()
    assert page.evaluate("document.activeElement.className") == "mark", "the focus comes back"
    marks.first.click()
    page.click("#beside a >> nth=0")
    page.wait_for_selector("mark#passage")
    assert "/source?" in page.url
    assert not faults
    page.close()


def test_a_question_follows_an_answer_and_readers_rate_it(browser: Any, tmp_path: Path) -> None:
    faults: list[str] = []
    with ScriptedServer("Every two years [1].") as model:
        folder = MakeProject(tmp_path)(f"answer: {{model: '{model.url}#writer'}}\n")
        with Workbench.open(folder) as bench:
            bench.ingest()
        secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("ann"))
        with served(folder) as server:
            page = opened(browser, f"{server.address}/login", faults)
            page.fill("#key", secret)
            page.press("#key", "Enter")
            page.wait_for_selector("#q")
            faults.clear()  # Chromium wishes a user name beside the key
            page.fill("#q", "What about")
            page.press("#q", "Shift+Enter")
            page.keyboard.type("the brake fluid?")
            assert page.input_value("#q") == "What about\nthe brake fluid?"
            page.press("#q", "Enter")
            page.wait_for_selector(".turn .feedback", timeout=20_000)
            assert page.input_value("#q") == "", "ready for the next question"
            page.fill("#q", "How do I change it?")
            page.press("#q", "Enter")
            until(page, "() => document.querySelectorAll('.turn .feedback').length === 2")
            page.wait_for_selector("#turns[aria-busy=false]")
            page.wait_for_selector(".why")
            newest = page.locator(".turn >> nth=1")
            assert newest.locator(".asked").inner_text() == "How do I change it?"
            newest.get_by_role("button", name="Bad answer").click()
            newest.get_by_role("status").wait_for()
            assert newest.locator("[aria-pressed=true]").get_attribute("value") == "rejected"
            newest.locator("input[name=note]").fill("which tool?")
            newest.get_by_role("button", name="Send").click()
            until(page, "() => document.querySelector('.feedback').dataset.verdict !== ''")
            page.locator(".turn >> nth=0").get_by_text("Edit").click()
            asked = page.locator(".turn >> nth=0").locator("textarea[name=q]")
            asked.fill("What about the coolant?")
            asked.press("Enter")
            until(page, "() => document.querySelectorAll('.turn .feedback').length === 1")
            page.wait_for_selector("#turns[aria-busy=false]")
            assert page.locator(".asked").all_inner_texts() == ["What about the coolant?"]
            page.reload()
            assert page.locator(".asked").all_inner_texts() == ["What about the coolant?"]
            shown = page.locator("main").text_content()
            assert "writer" in shown
            assert model.url not in shown, "readers see no address"
            page.close()
    condensing = model.requests[1].body["messages"][-1]["content"]
    assert "the brake fluid?" in condensing
    assert "How do I change it?" in condensing
    with Workbench.open(folder) as bench:
        [rated] = bench.outputs.find(OutputQuery(verdict="rejected", scope=None))
    assert rated.request["question"] == "How do I change it?"
    assert rated.note == "which tool?"
    assert not faults


KEPT = "() => Object.entries(localStorage).filter(([name]) => name.startsWith('ragwright-th'))"


def test_conversations_stay_in_the_browser_and_are_deleted_there(
    browser: Any, running: Running
) -> None:
    faults: list[str] = []
    page = opened(browser, running.address, faults)

    def ask(question: str) -> str:
        page.fill("#q", question)
        page.press("#q", "Enter")
        page.wait_for_selector("#turns[aria-busy=false] .turn:last-child .why", timeout=20_000)
        return str(page.url)

    ask(QUESTION)
    first = ask("And the coolant?")
    page.get_by_role("link", name="New conversation").click()
    page.wait_for_selector("#threads li")
    assert page.locator(".turn").count() == 0
    second = ask("What do the codes mean?")
    assert first != second
    page.locator("#threads a", has_text=QUESTION).click()
    until(page, "() => document.querySelectorAll('.turn').length === 2")
    assert page.locator("h1").inner_text() == QUESTION
    page.locator(".turn >> nth=0").locator("a.mark >> nth=0").click()
    page.wait_for_selector("#beside mark")
    ask("And the filters?")
    page.goto(first)
    page.reload()
    until(page, "() => document.querySelectorAll('.turn').length === 3")
    assert page.url == first
    page.get_by_role("button", name="Delete “What do").click()
    assert page.locator("#threads li").count() == 1
    page.get_by_role("button", name="Delete all").click()
    until(page, "() => document.querySelectorAll('.turn').length === 0")
    assert page.evaluate(KEPT) == []
    page.goto(second)
    assert page.locator(".turn").count() == 0
    assert not faults
    page.close()


def test_conversations_go_when_another_reader_comes(browser: Any, tmp_path: Path) -> None:
    """Also when the same reader comes with other rights, and when a reader signs out."""
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
    keys = ServeKeys(ProjectFolder(folder))
    ann, ben = (keys.add(ServeKey(name, groups=("hr",))) for name in ("ann", "ben"))
    with served(folder) as server:
        context = browser.new_context()
        page = opened(context, f"{server.address}/login", [])

        def enter(secret: str) -> None:
            page.goto(f"{server.address}/login")
            page.fill("#key", secret)
            page.press("#key", "Enter")
            page.wait_for_selector("#q")

        def asked() -> None:
            page.fill("#q", QUESTION)
            page.press("#q", "Enter")
            page.wait_for_selector("#turns[aria-busy=false] .why")
            assert QUESTION in str(page.evaluate(KEPT))

        enter(ann)
        asked()
        enter(ann)
        assert QUESTION in str(page.evaluate(KEPT)), "the same reader finds them again"
        enter(ben)
        assert page.evaluate(KEPT) == []
        assert page.locator("#threads").is_hidden()
        asked()
        keys.change("ben", {"groups": ()})
        page.goto(f"{server.address}/sources")
        assert page.evaluate(KEPT) == []
        page.goto(server.address)
        asked()
        page.get_by_label("Account of ben").click()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_selector("#key")
        assert page.evaluate(KEPT) == []
        context.close()


def test_stop_ends_the_call_of_the_model_and_nothing_is_kept(browser: Any, tmp_path: Path) -> None:
    faults: list[str] = []
    with ScriptedServer(Reply("Every two years [1]. " * 200, pace=0.05)) as model:
        folder = MakeProject(tmp_path)(f"answer: {{model: '{model.url}#writer'}}\n")
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder) as server:
            page = opened(browser, server.address, faults)
            page.fill("#q", QUESTION)
            page.press("#q", "Enter")
            until(page, "() => document.querySelector('.turn .answer')?.textContent.length > 30")
            page.click("#stop")
            page.get_by_text("Stopped.").wait_for()
            assert "Every two years" in page.locator(".turn .answer").inner_text(), "stays in view"
            assert page.locator("#stop").is_hidden()
            assert page.evaluate("document.activeElement.id") == "q"
            assert page.evaluate(KEPT) == []
            page.close()
    with Workbench.open(folder) as bench:
        assert not bench.outputs.count()
    assert not faults


FENCED = "```python\nstart()\n```\n\nAfter it, **press** the key.\n"


@pytest.mark.parametrize(
    ("text", "code", "bold"),
    [
        (FENCED, ["start()"], ["press"]),
        ("stop()\n```\n\nAfter it, **press** the key.", [], ["press"]),
        (f"stop()\n```\n\n**Then**\n\n{FENCED}", ["start()"], ["Then", "press"]),
        (f"{FENCED}\n```python\nend(", ["start()", "end("], ["press"]),
    ],
)
def test_a_passage_cut_inside_a_code_fence_is_no_code_behind_it(
    browser: Any, running: Running, text: str, code: list[str], bold: list[str]
) -> None:
    faults: list[str] = []
    page = opened(browser, running.address, faults)
    drawn = page.evaluate(
        """text => { const box = document.createElement("div"); box.append(formatted.block(text));
        const of = (name) => [...box.querySelectorAll(name)].map((one) => one.textContent);
        return [of("pre"), of("b")] }""",
        text,
    )
    assert drawn == [code, bold]
    assert not faults
    page.close()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_word_of_200_000_characters_breaks_no_page(
    browser: Any, tmp_path: Path, width: int
) -> None:
    word = "x" * 200_000
    folder = MakeProject(tmp_path)("", **{"long.md": f"# Long\n\nThe fuse {word} is red.\n"})
    with Workbench.open(folder) as bench:
        bench.ingest()
    faults: list[str] = []
    with served(folder) as server:
        ways = ("/?q=fuse", "/source?id=docs/long.md", "/source?id=docs/long.md&chunks=true")
        for way in (*ways, f"/?q={word[:5_000]}", "/outputs", "/sources"):
            page = opened(
                browser, server.address + way, faults, viewport={"width": width, "height": 800}
            )
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, way
            page.close()
    assert not faults


def test_pages_are_small(running: Running) -> None:
    parts = ("/", "/static/pages.css", "/static/pages.js", "/static/htmx.min.js")
    assert sum(len(running.http.get(path).content) for path in parts) < 150_000
