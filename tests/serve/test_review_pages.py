"""A testset is reviewed in the browser: by keyboard, undone, by two people at once."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import opened, until
from served import Running, served
from small_project import MANUAL, MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testsets import TestsetReview, read_rows, review_status

BRAKE = "The brake fluid must be changed every two years."
COOLANT = "The coolant must be changed every five years."


def row(name: str, question: str, answer: str, text: str, leak: float) -> str:
    start = MANUAL.index(text)
    span = {"document_id": "docs/service.md", "start": start, "end": start + len(text)}
    body: dict[str, object] = {"id": name, "user_input": question, "reference": answer}
    body |= {"reference_spans": [{**span, "text": text}], "metadata": {"leak": leak}}
    return json.dumps(body)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    (folder / "testsets").mkdir()
    lines = [
        row("q1", "How often is the brake fluid changed?", "every two years", BRAKE, 0.9),
        row("q2", "And <b>the coolant</b>?", "never", COOLANT, 0.1),
        row("q3", "When is the coolant changed?", "every five years", COOLANT, 0.4),
    ]
    (folder / "testsets" / "main.jsonl").write_text("\n".join(lines), "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.fixture
def running(project: Path) -> Iterator[Running]:
    with served(project) as server:
        yield server


def statuses(project: Path) -> list[str]:
    return [
        review_status(stored_row) for stored_row in read_rows(project / "testsets" / "main.jsonl")
    ]


def form(page: str) -> dict[str, str]:
    """Hidden fields of the form that decides."""
    match = re.search(r'id="decide">(.*?)</form>', page, re.DOTALL)
    assert match is not None
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', match[1])
    return {name: html.unescape(value) for name, value in fields if name != "decision"}


def test_a_row_shows_leak_answerability_and_evidence(running: Running) -> None:
    listed = running.http.get("/testsets").text
    first = running.http.get("/testsets/main.jsonl").text
    second = running.http.get("/testsets/main.jsonl?row=q2").text
    assert "main.jsonl" in listed
    assert "leak 0.90" in first
    assert "the gold answer is in the evidence" in first
    assert "not in the evidence word for word" in second
    assert "<b>the coolant" not in second
    link = html.unescape(re.findall(r'href="(/source\?[^"]+)"', first)[0])
    assert f'<mark id="passage">{BRAKE}</mark>' in running.http.get(link.partition("#")[0]).text


def test_decisions_are_those_of_the_command_and_lead_to_the_next_row(
    project: Path, running: Running
) -> None:
    http = running.http
    page = http.get("/testsets/main.jsonl").text
    done = http.post("/testsets/main.jsonl/decide", data={**form(page), "decision": "accepted"})
    assert done.status_code == 303
    assert "row=q2" in done.headers["location"]
    page = http.get(done.headers["location"]).text
    edit = {**form(page), "decision": "edited", "question": "And the coolant?", "answer": "5 years"}
    http.post("/testsets/main.jsonl/decide", data=edit)
    assert statuses(project) == ["accepted", "edited", ""]
    assert read_rows(project / "testsets" / "main.jsonl")[1].reference == "5 years"
    review = TestsetReview(project / "testsets" / "main.jsonl", "ann")
    assert review.counts() == {"accepted": 1, "edited": 1, "rejected": 0, "open": 1}
    undone = http.post("/testsets/main.jsonl/undo")
    assert "row=q2" in undone.headers["location"]
    assert statuses(project) == ["accepted", "", ""]
    assert read_rows(project / "testsets" / "main.jsonl")[1].reference == "never"


def test_two_people_review_at_once_and_nothing_is_lost(project: Path, running: Running) -> None:
    keys = ServeKeys(ProjectFolder(project))
    names = ("ann", "bob é")
    ann, bob = (running.client(keys.add(ServeKey(name, "reviewer"))) for name in names)
    shown = [form(http.get("/testsets/main.jsonl").text) for http in (ann, bob)]
    ann.post("/testsets/main.jsonl/decide", data={**shown[0], "decision": "accepted"})
    assert "ann: accepted" not in bob.get("/testsets/main.jsonl?row=q1").text, "it would sway him"
    sent = bob.post("/testsets/main.jsonl/decide", data={**shown[1], "decision": "rejected"})
    assert sent.status_code == 303
    both = bob.get("/testsets/main.jsonl?row=q1").text
    assert "ann: accepted" in both
    assert "bob é: rejected" in both
    assert "2 people agree on 0 of 1 row" in both
    assert "q1" in ann.get("/testsets/main.jsonl?only=disputed").text
    # Ann edits the row that Bob has open: his edit is refused, kept in the form, nothing is stored.
    q3 = form(bob.get("/testsets/main.jsonl?row=q3").text)
    ann.post(
        "/testsets/main.jsonl/decide",
        data={**q3, "decision": "edited", "question": "When is it?", "answer": "every five years"},
    )
    edit = {**q3, "decision": "edited", "question": "Bob's wording?", "answer": "five"}
    clash = bob.post("/testsets/main.jsonl/decide", data=edit)
    assert clash.status_code == 409
    assert "Somebody changed this row" in clash.text
    assert "Bob&#39;s wording?" in clash.text
    assert read_rows(project / "testsets" / "main.jsonl")[2].user_input == "When is it?"


def test_only_owners_review_and_no_other_site_decides(project: Path) -> None:
    keys = ServeKeys(ProjectFolder(project))
    owner = keys.add(ServeKey("olga", "owner"))
    reader = keys.add(ServeKey("reader"))
    with served(project) as running:
        assert running.client(reader).get("/testsets/main.jsonl").status_code == 403
        http = running.client()
        http.post("/login", data={"key": owner})
        body = {**form(http.get("/testsets/main.jsonl").text), "decision": "rejected"}
        other = {"origin": "https://other.example"}
        for path in ("decide", "undo"):
            sent = http.post(f"/testsets/main.jsonl/{path}", data=body, headers=other)
            assert sent.status_code == 403
        assert statuses(project) == ["", "", ""]
        http.post("/testsets/main.jsonl/decide", data=body)
        assert TestsetReview(project / "testsets" / "main.jsonl", "").labels().of("olga")
        for name in ("../ragwright.yaml", "openings.jsonl", "none.jsonl"):
            assert http.get(f"/testsets/{name}").status_code == 404
        odd = http.post("/testsets/main.jsonl/decide", data={**body, "decision": "maybe"})
        assert odd.status_code == 400


def test_a_project_without_testsets_says_what_to_do(tmp_path: Path) -> None:
    with served(MakeProject(tmp_path)()) as running:
        assert "ragwright synth" in running.http.get("/testsets").text


@pytest.mark.slow
def test_the_whole_review_goes_by_keyboard(browser: Any, project: Path, running: Running) -> None:
    faults: list[str] = []
    page = opened(browser, f"{running.address}/testsets/main.jsonl", faults)
    keys = page.keyboard

    def at(question: str) -> None:
        page.wait_for_selector(f"#row .question:text-is('{question}')")
        # A key that comes before htmx knows the new part loads a whole page.
        page.wait_for_load_state()
        until(page, "!document.querySelector('.htmx-added, .htmx-settling')")

    at("How often is the brake fluid changed?")
    keys.press("?")
    page.wait_for_selector("#keys[open]")
    keys.press("ArrowRight")
    at("And <b>the coolant</b>?")
    keys.press("ArrowLeft")
    at("How often is the brake fluid changed?")
    keys.press("a")
    at("And <b>the coolant</b>?")
    until(page, "document.activeElement.id === 'row'")  # the next row has the focus
    assert "q1: accepted" in page.inner_text("#spoken")
    keys.press("e")
    page.wait_for_selector("#question:focus")
    keys.type(" area")  # the letters a, r and e are text here
    keys.press("Escape")
    page.wait_for_selector("#row:focus")
    assert statuses(project) == ["accepted", "", ""], "Escape stores nothing"
    keys.press("e")
    page.fill("#question", "And the coolant?")
    keys.press("Tab")
    keys.press("Control+Enter")
    at("When is the coolant changed?")
    keys.press("r")
    page.wait_for_selector(".lead:text-is('You decided every row.')")
    assert statuses(project) == ["accepted", "edited", "rejected"]
    keys.press("u")
    at("When is the coolant changed?")
    keys.press("u")
    at("And <b>the coolant</b>?")
    assert statuses(project) == ["accepted", "", ""]
    page.uncheck("#shortcuts")
    keys.press("r")
    page.wait_for_timeout(300)
    assert statuses(project) == ["accepted", "", ""], "single keys are switched off"
    assert not faults
    page.close()


def test_feedback_is_collected_and_reviewed_on_the_page(project: Path, running: Running) -> None:
    http = running.http
    empty = http.post("/testsets/collect")
    assert empty.status_code == 303
    assert "No answer has feedback yet." in http.get(empty.headers["location"]).text
    answer = running.ask("How often must the brake fluid be changed?").json()
    vote = {"id": answer["id"], "verdict": "rejected", "correction": "every <b>two</b> years"}
    assert http.post("/v1/feedback", json={**vote, "passages": [1]}).status_code == 200
    assert http.post("/v1/feedback", json={**vote, "passages": [7]}).status_code == 400
    collected = http.post("/testsets/collect")
    assert collected.headers["location"].endswith("/testsets/feedback.jsonl")
    page = http.get(collected.headers["location"]).text
    assert "Readers: rejected; corrected." in page
    assert "every &lt;b&gt;two&lt;/b&gt; years" in page
    edit = {**form(page), "decision": "edited", "answer": "2 years"}
    assert http.post("/testsets/feedback.jsonl/decide", data=edit).status_code == 303
    [decided] = read_rows(project / "testsets" / "feedback.jsonl")
    assert decided.reference == "2 years"
    assert [span.text for span in decided.reference_spans] == [f"{BRAKE} {COOLANT}"]


def test_a_reader_corrects_without_a_script(running: Running) -> None:
    page = running.http.post("/", data={"q": "How often must the brake fluid be changed?"}).text
    name = re.findall(r'name="id" value="(chatcmpl-[^"]+)"', page)[0]
    sent = {"id": name, "verdict": "", "correction": "two years", "passages": "1"}
    assert "stored" in running.http.post("/ask/feedback", data=sent).text
    output = running.http.get("/outputs/1.1").text
    assert "correction: two years" in output
    assert "named sources: 1" in output
