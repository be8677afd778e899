"""The page that asks, and sources: without a script, and in a real browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import opened, until
from served import Running, handbook, key, served, written_by
from small_project import CODES, MANUAL, QUESTION, ingested

from ragwright import Workbench
from ragwright.drafting import OutputQuery
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKeys
from ragwright.testing import Reply, ScriptedServer

HOSTILE = "# <script>alert(1)</script>\n\nThe fuse <img src=x onerror=alert(2)> is red. {{ 7*7 }}\n"
TEXTS = {"service.md": MANUAL, "codes.md": CODES, "<b>hostile<b>.md": HOSTILE}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with handbook(tmp_path_factory.mktemp("plain"), **TEXTS) as running:
        yield running


def why(page: str) -> str:
    return page[page.index("Why this answer") :]


def test_a_form_asks_without_any_script(plain: Running) -> None:
    page = plain.http.post("/", data={"q": QUESTION, "persona": "*"}).text
    marked = "<mark>The brake fluid must be changed every two years.</mark>"
    assert page.count(marked) == 2, "one for each persona"
    assert "No chat model is set: these passages match best." in page
    assert "quoted as [1]" in why(page)
    unfound = plain.http.post("/", data={"q": "Reciprocal zanzibars?"}).text
    assert "was found by the words of the question" in why(unfound)


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Which Zeppelins landed in Oslo with brake fluid?", "Zeppelins, landed, Oslo."),
        (
            "Wer ist der Bürgermeister von Oslo?",
            "Nothing was found for this question. In no document: Bürgermeister, Oslo.",
        ),
    ],
)
def test_an_abstention_names_the_words_that_no_document_has(
    plain: Running, question: str, missing: str
) -> None:
    reply = plain.ask(question, model="handbook").json()
    page = plain.http.post("/", data={"q": question}).text
    for text in (page, reply["choices"][0]["message"]["content"]):
        assert missing in text
    assert reply["ragwright"]["abstained"]
    assert reply["ragwright"]["citations"] == reply["ragwright"]["snippets"] == []


def test_everything_foreign_is_escaped_and_no_script_but_ours_may_run(plain: Running) -> None:
    name = quote("docs/<b>hostile<b>.md")
    paths = ("/sources", "/outputs", "/source?id=%3Cscript%3Ealert(4)%3C/script%3E")
    pages = [plain.http.get(path) for path in (f"/source?id={name}", *paths)]
    asked = {"q": "<script>alert(3)</script> Which fuse is red?"}
    for page in (*pages, plain.http.post("/", data=asked)):
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "<b>hostile" not in page.text
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
    assert "{{ 7*7 }}" in pages[0].text, "text of documents is no template"


def test_without_a_script_a_question_follows_an_answer_and_is_rated(plain: Running) -> None:
    first = plain.http.post("/", data={"q": "What does APP_w304 mean?"}).text
    composer = first[first.index('<form id="ask"') :].partition("</form>")[0]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', composer))
    fields = {name: html.unescape(value) for name, value in fields.items()}
    assert "APP_w304" in fields["earlier"]
    second = plain.http.post("/", data={"q": "And what about APP_w305?", **fields}).text
    assert "brake light switch" in second
    assert "What does APP_w304 mean?" in second
    [rated] = re.findall(r'name="id" value="([^"]+)"', second)
    form = {"id": rated, "verdict": "rejected", "note": "too short", "passages": "1"}
    form["correction"] = "two years"
    thanks = plain.http.post("/ask/feedback", data=form)
    assert thanks.status_code == 200
    assert "stored" in thanks.text
    unknown = plain.http.post("/ask/feedback", data={**form, "id": "chatcmpl-x"})
    assert unknown.status_code == 404
    assert plain.http.post("/ask/feedback", data={}).status_code == 400
    assert plain.http.post("/", data={"q": "And?", "earlier": "[1]"}).status_code == 400
    with Workbench.open(plain.folder) as bench:
        [output] = bench.outputs.find(OutputQuery(verdict="rejected", scope=None))
    assert output.note == "too short"
    shown = plain.http.get(f"/outputs/{output.id}").text
    assert "correction: two years" in shown
    assert "named sources: 1" in shown


def test_readers_sign_in_with_their_key_and_see_their_part(tmp_path: Path) -> None:
    with handbook(tmp_path, **TEXTS, **{"broken.pdf": "no PDF"}) as running:
        folder = running.folder
        reader = key(folder, "reader", filters=("source=docs/codes.md",))
        http, owner = running.client(), running.client(key(folder, "owner", "owner"))
        sent = http.get("/outputs/1.1?a=b", headers={"accept": "text/html"})
        assert sent.status_code == 303
        assert sent.headers["location"] == "/login?next=%2Foutputs%2F1.1%3Fa%3Db"
        assert http.post("/login", data={"key": "rw_wrong"}).status_code == 401
        assert http.post("/login", data={"key": reader}).headers["location"] == "/"
        for path in ("/sources", "/sources?find=docs"):
            listed = http.get(path).text
            assert "docs/codes.md" in listed
            for hidden in ("docs/service.md", "broken.pdf", "/outputs"):
                assert hidden not in listed
        assert http.get("/outputs").status_code == 403
        crossed = http.post("/outputs/1.1", data={}, headers={"origin": "https://other.example"})
        assert crossed.status_code == 403
        http.post("/logout")
        assert http.get("/sources").status_code == 401
        seen = html.unescape(owner.get("/sources").text)
        assert "3 documents" in seen
        assert "UTC: 3 added, 1 failed, 0 unchanged" in seen
        assert "docs/broken.pdf" in seen
        listed = owner.get("/sources", params={"find": "SERV"}).text
        assert "docs/service.md" in listed
        assert "docs/codes.md" not in listed
        assert "contains “zebra”" in owner.get("/sources", params={"find": "zebra"}).text
        whole = owner.get("/source", params={"id": "docs/service.md"}).text
        assert "The coolant must be changed every five years." in whole
        assert owner.get("/source", params={"id": "docs/none.md"}).status_code == 404
        with Workbench.open(folder) as bench:
            bench.forget("docs/codes.md")
        assert "Last ingest" not in owner.get("/sources").text


def test_the_first_page_offers_questions_that_the_reader_may_see(tmp_path: Path) -> None:
    texts = {
        "codes.md": "# Codes\n\n## What does a code mean?\n\nAPP_w304 is a sensor.\n",
        "hr.md": "---\ngroups: [hr]\n---\n# Pay\n\n## When is the pay sent?\n\nOn Fridays.\n",
    }
    with handbook(tmp_path, **texts) as running:
        folder = running.folder
        rows: list[dict[str, object]] = [
            {"user_input": "How long does a shipment take?", "split": "tune"},
            {"user_input": "Which rows are held out?", "split": "confirm"},
            {"user_input": "What fills the ____ of it?", "kind": "cloze"},
            {"user_input": "Who reads a rejected one?", "review": "rejected"},
        ]
        (folder / "testsets").mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "testsets/main.jsonl").write_text(lines, "utf-8")
        (folder / "testsets/broken.jsonl").write_text("{", "utf-8")

        def starters(client: Any) -> list[str]:
            page = html.unescape(client.get("/").text)
            return re.findall(r'<li><a href="/\?q=[^"]+">([^<]+)</a>', page)

        here = starters(running.http)
        assert here[0] == "How long does a shipment take?"
        assert set(here[1:]) == {"What does a code mean?", "When is the pay sent?"}
        filled = running.http.get("/", params={"q": here[0]}).text
        assert here[0] in filled
        assert "starters" not in filled
        reader = running.client(key(folder, "reader"))
        assert starters(reader) == ["What does a code mean?"]


def test_the_menu_names_the_parts_that_the_project_uses(tmp_path: Path) -> None:
    with handbook(tmp_path, **TEXTS) as running:

        def menu(path: str = "/") -> list[str]:
            page = running.http.get(path).text
            return re.findall(
                r">(\w+)</a>", page[page.index('<nav aria-label="Sec') :].split("</nav")[0]
            )

        assert menu() == ["Ask", "Sources"]
        assert menu("/experiments") == ["Ask", "Sources", "Experiments"], "where one is, is named"
        running.http.post("/", data={"q": QUESTION})
        assert menu() == ["Ask", "Sources", "Outputs"]
        (running.folder / "testsets").mkdir(exist_ok=True)
        (running.folder / "testsets/a.jsonl").write_text('{"user_input": "Why?"}\n')
        assert menu() == ["Ask", "Sources", "Testsets", "Outputs"]


def test_an_address_without_a_page_is_a_page_in_a_browser(plain: Running) -> None:
    reply = plain.http.get("/nowhere", headers={"accept": "text/html,*/*;q=0.8"})
    assert reply.status_code == 404
    assert "<h1>This was not found</h1>" in reply.text
    assert plain.http.get("/nowhere").json()["error"]["code"] == "http_error"


# -- in a real browser ---------------------------------------------------------------------------

MARKED = "Every two years 🚗 [1]. <img src=x onerror=alert(1)> See the codes [2] " * 3
KEPT = "() => Object.entries(localStorage).filter(([name]) => name.startsWith('ragwright-th'))"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, model: ScriptedServer) -> Iterator[Running]:
    """A server with keys, whose answers a model writes."""
    with served(ingested(tmp_path_factory.mktemp("signing"), written_by(model))) as running:
        key(running.folder, "first")
        yield running


def ask(page: Any, question: str, done: str = ".turn:last-child .why") -> str:
    """Ask, and wait for the end of the answer; the address of the conversation."""
    page.fill("#q", question)
    page.press("#q", "Enter")
    page.wait_for_selector(f"#turns[aria-busy=false] {done}", timeout=20_000)
    return str(page.url)


def enter(page: Any, running: Running, secret: str) -> None:
    page.goto(f"{running.address}/login")
    page.fill("#key", secret)
    page.press("#key", "Enter")
    page.wait_for_selector("#q")


def turns(page: Any, count: int, what: str = ".turn") -> None:
    until(page, f"() => document.querySelectorAll('{what}').length === {count}")


@pytest.mark.slow
def test_answers_stream_side_by_side_and_conversations_stay_in_the_browser(
    browser: Any, writing: Running, model: ScriptedServer
) -> None:
    model.play(Reply(MARKED, pace=0.01))
    faults: list[str] = []
    page = opened(browser, writing.address, faults)
    page.check("input[value='*']", force=True)
    ask(page, QUESTION, ".card .cited >> nth=1")
    assert page.locator(".card").count() == 2
    marks = page.locator(".card >> nth=0").locator(".answer a.mark")
    assert marks.all_inner_texts() == ["[1]", "[2]"] * 3
    assert "<img src=x" in page.locator(".answer >> nth=0").inner_text(), "shown, not run"
    page.wait_for_selector(".why")
    assert page.locator("#beside").is_hidden(), "of several answers none is first"
    assert "/#" in page.url, "the conversation has an address in this browser"
    marks.first.click()
    page.wait_for_selector("#beside mark")
    assert "brake fluid" in " ".join(page.locator("#beside mark").all_inner_texts())
    page.keyboard.press("Escape")
    assert page.locator("#beside").is_hidden()
    assert page.evaluate("document.activeElement.className") == "mark", "the focus comes back"
    first = ask(page, "And the coolant?")
    page.get_by_role("link", name="New conversation").click()
    page.wait_for_selector("#threads li")
    assert page.locator(".turn").count() == 0
    second = ask(page, "What do the codes mean?")
    assert first != second
    page.locator("#threads a", has_text=QUESTION).click()
    turns(page, 2)
    assert page.locator("h1").inner_text() == QUESTION
    page.locator(".turn >> nth=0").locator("a.mark >> nth=0").click()
    page.wait_for_selector("#beside mark")
    ask(page, "And the filters?")
    page.goto(first)
    page.reload()
    turns(page, 3)
    assert page.url == first
    page.get_by_role("button", name="Delete “What do").click()
    assert page.locator("#threads li").count() == 1
    page.get_by_role("button", name="Delete all").click()
    turns(page, 0)
    assert page.evaluate(KEPT) == []
    page.goto(second)
    assert page.locator(".turn").count() == 0
    model.play("- Every two years [1].\n- **Each** year [2].\n\n```\nx = 1\n```")
    page.check("input[name=persona] >> nth=0", force=True)
    ask(page, f"{QUESTION} Or earlier?")
    assert page.locator(".answer li").all_inner_texts() == [
        "Every two years [1].",
        "Each year [2].",
    ]
    assert page.locator(".answer pre").inner_text() == "x = 1"
    page.wait_for_selector("#beside mark")
    assert page.evaluate("document.activeElement.id") == "q", "the focus stays"
    page.click("#beside a >> nth=0")
    page.wait_for_selector("mark#passage")
    assert "/source?" in page.url
    assert not faults
    page.close()


@pytest.mark.slow
def test_conversations_go_when_another_reader_comes(
    browser: Any, signing: Running, model: ScriptedServer
) -> None:
    model.play("Every two years [1].")
    ann, ben = (key(signing.folder, name, groups=("hr",)) for name in ("ann", "ben"))
    context = browser.new_context()
    page = opened(context, f"{signing.address}/login", [])

    def asked() -> None:
        ask(page, QUESTION)
        assert QUESTION in str(page.evaluate(KEPT))

    enter(page, signing, ann)
    asked()
    enter(page, signing, ann)
    assert QUESTION in str(page.evaluate(KEPT)), "the same reader finds them again"
    enter(page, signing, ben)
    assert page.evaluate(KEPT) == []
    assert page.locator("#threads").is_hidden()
    asked()
    ServeKeys(ProjectFolder(signing.folder)).change("ben", {"groups": ()})
    page.goto(f"{signing.address}/sources")
    assert page.evaluate(KEPT) == []
    page.goto(signing.address)
    asked()
    page.get_by_label("Account of ben").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_selector("#key")
    assert page.evaluate(KEPT) == []
    context.close()


@pytest.mark.slow
def test_stop_ends_the_call_of_the_model_and_nothing_is_kept(
    browser: Any, writing: Running, model: ScriptedServer
) -> None:
    faults: list[str] = []
    model.play(Reply("Every two years [1]. " * 200, pace=0.05))
    with Workbench.open(writing.folder) as bench:
        before = bench.outputs.count()
        page = opened(browser, writing.address, faults)
        page.fill("#q", "When is the brake fluid changed?")
        page.press("#q", "Enter")
        until(page, "() => document.querySelector('.turn .answer')?.textContent.length > 30")
        page.click("#stop")
        page.get_by_text("Stopped.").wait_for()
        assert "Every two years" in page.locator(".turn .answer").inner_text(), "stays in view"
        assert page.locator("#stop").is_hidden()
        assert page.evaluate("document.activeElement.id") == "q"
        assert page.evaluate(KEPT) == []
        page.close()
        assert bench.outputs.count() == before
    assert not faults
