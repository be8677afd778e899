"""What owners and reviewers see: testsets under review, outputs and their drift, experiments."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import opened, until
from served import HANDBOOK, Running, asks, handbook, key, served
from served_answers import BAD, Days, live, outputs_at, serve_answers
from small_project import MANUAL, QUESTION, MakeProject, ingested

from ragwright import EvaluationOptions, Workbench
from ragwright.project import Session
from ragwright.testsets import TestsetReview, read_rows, review_status

BRAKE = "The brake fluid must be changed every two years."
COOLANT = "The coolant must be changed every five years."
MAIN = "/testsets/main.jsonl"


def row(name: str, question: str, answer: str, text: str, leak: float) -> str:
    start = MANUAL.index(text)
    span = {"document_id": "docs/service.md", "start": start, "end": start + len(text)}
    body: dict[str, object] = {"id": name, "user_input": question, "reference": answer}
    body |= {"reference_spans": [{**span, "text": text}], "metadata": {"leak": leak}}
    return json.dumps(body)


ROWS = (
    row("q1", "How often is the brake fluid changed?", "every two years", BRAKE, 0.9),
    row("q2", "And <b>the coolant</b>?", "never", COOLANT, 0.1),
    row("q3", "When is the coolant changed?", "every five years", COOLANT, 0.4),
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A server of a project with a testset of three rows."""
    with handbook(tmp_path) as server:
        (server.folder / "testsets").mkdir()
        rows_file(server).write_text("\n".join(ROWS), "utf-8")
        yield server


def rows_file(running: Running, name: str = "main.jsonl") -> Path:
    return running.folder / "testsets" / name


def statuses(running: Running) -> list[str]:
    return [review_status(stored) for stored in read_rows(rows_file(running))]


def form(page: str) -> dict[str, str]:
    match = re.search(r'id="decide">(.*?)</form>', page, re.DOTALL)
    assert match is not None
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', match[1])
    return {name: html.unescape(value) for name, value in fields if name != "decision"}


def decide(http: Any, page: str, decision: str, **more: str) -> Any:
    return http.post(f"{MAIN}/decide", data={**form(page), "decision": decision, **more})


def test_a_row_shows_its_evidence_and_decisions_are_those_of_the_command(running: Running) -> None:
    http = running.http
    assert "main.jsonl" in http.get("/testsets").text
    first, second = http.get(MAIN).text, http.get(f"{MAIN}?row=q2").text
    assert "leak 0.90" in first
    assert "the gold answer is in the evidence" in first
    assert "not in the evidence word for word" in second
    assert "<b>the coolant" not in second
    link = html.unescape(re.findall(r'href="(/source\?[^"]+)"', first)[0])
    assert f'<mark id="passage">{BRAKE}</mark>' in http.get(link.partition("#")[0]).text
    done = decide(http, first, "accepted")
    assert done.status_code == 303
    assert "row=q2" in done.headers["location"]
    page = http.get(done.headers["location"]).text
    decide(http, page, "edited", question="And the coolant?", answer="5 years")
    assert statuses(running) == ["accepted", "edited", ""]
    assert read_rows(rows_file(running))[1].reference == "5 years"
    counts = TestsetReview(rows_file(running), "ann").counts()
    assert counts == {"accepted": 1, "edited": 1, "rejected": 0, "open": 1}
    assert "row=q2" in http.post(f"{MAIN}/undo").headers["location"]
    assert statuses(running) == ["accepted", "", ""]
    assert read_rows(rows_file(running))[1].reference == "never"


def test_two_people_review_at_once_and_nothing_is_lost(running: Running) -> None:
    names = ("ann", "bob é")
    ann, bob = (running.client(key(running.folder, name, "reviewer")) for name in names)
    shown = [http.get(MAIN).text for http in (ann, bob)]
    decide(ann, shown[0], "accepted")
    assert "ann: accepted" not in bob.get(f"{MAIN}?row=q1").text, "it would sway him"
    assert decide(bob, shown[1], "rejected").status_code == 303
    both = bob.get(f"{MAIN}?row=q1").text
    assert "ann: accepted" in both
    assert "bob é: rejected" in both
    assert "q1" in ann.get(f"{MAIN}?only=disputed").text
    # Ann edits the row that Bob has open: his edit is refused, kept in the form, nothing is stored.
    q3 = bob.get(f"{MAIN}?row=q3").text
    decide(ann, q3, "edited", question="When is it?", answer="every five years")
    clash = decide(bob, q3, "edited", question="Bob's wording?", answer="five")
    assert clash.status_code == 409
    assert "Somebody changed this row" in clash.text
    assert "Bob&#39;s wording?" in clash.text
    assert read_rows(rows_file(running))[2].user_input == "When is it?"


def test_only_owners_review_and_no_other_site_decides(running: Running) -> None:
    owner, reader = key(running.folder, "olga", "owner"), key(running.folder, "reader")
    assert running.client(reader).get(MAIN).status_code == 403
    http = running.client()
    http.post("/login", data={"key": owner})
    page = http.get(MAIN).text
    body = {**form(page), "decision": "rejected"}
    for path in ("decide", "undo"):
        other = {"origin": "https://other.example"}
        assert http.post(f"{MAIN}/{path}", data=body, headers=other).status_code == 403
    assert statuses(running) == ["", "", ""]
    decide(http, page, "rejected")
    assert TestsetReview(rows_file(running), "").labels()
    for name in ("../ragwright.yaml", "openings.jsonl", "none.jsonl"):
        assert http.get(f"/testsets/{name}").status_code == 404
    assert decide(http, page, "maybe").status_code == 400


def test_feedback_is_collected_and_reviewed_on_the_page(running: Running) -> None:
    http = running.http
    empty = http.post("/testsets/collect")
    assert empty.status_code == 303
    assert "No answer has feedback yet." in http.get(empty.headers["location"]).text
    name = running.ask(QUESTION).json()["id"]
    vote = {"id": name, "verdict": "rejected", "correction": "every <b>two</b> years"}
    assert http.post("/v1/feedback", json={**vote, "passages": [1]}).status_code == 200
    assert http.post("/v1/feedback", json={**vote, "passages": [7]}).status_code == 400
    collected = http.post("/testsets/collect").headers["location"]
    assert collected.endswith("/testsets/feedback.jsonl")
    page = http.get(collected).text
    assert "Readers: rejected; corrected." in page
    assert "every &lt;b&gt;two&lt;/b&gt; years" in page
    edit = {**form(page), "decision": "edited", "answer": "2 years"}
    assert http.post("/testsets/feedback.jsonl/decide", data=edit).status_code == 303
    [decided] = read_rows(rows_file(running, "feedback.jsonl"))
    assert decided.reference == "2 years"
    assert [span.text for span in decided.reference_spans] == [f"{BRAKE} {COOLANT}"]


@pytest.mark.slow
def test_the_whole_review_goes_by_keyboard(browser: Any, running: Running) -> None:
    faults: list[str] = []
    page = opened(browser, running.address + MAIN, faults)
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
    assert statuses(running) == ["accepted", "", ""], "Escape stores nothing"
    keys.press("e")
    page.fill("#question", "And the coolant?")
    keys.press("Tab")
    keys.press("Control+Enter")
    at("When is the coolant changed?")
    keys.press("r")
    page.wait_for_selector(".lead:text-is('You decided every row.')")
    assert statuses(running) == ["accepted", "edited", "rejected"]
    keys.press("u")
    at("When is the coolant changed?")
    keys.press("u")
    at("And <b>the coolant</b>?")
    assert statuses(running) == ["accepted", "", ""]
    page.uncheck("#shortcuts")
    keys.press("r")
    page.wait_for_timeout(300)
    assert statuses(running) == ["accepted", "", ""], "single keys are switched off"
    assert not faults
    page.close()


# -- outputs -------------------------------------------------------------------------------------

NOTE = "It must say <b>every two years</b>."
MEASURED = "serve: {name: handbook, measure: {share: 1, window: 14}}\n"
MEASURE = "KPrecision(content+bigrams)"
NAME = r'<th scope="row"><a href="/outputs/([\d.]+)">'


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose answers became worse with another model."""
    folder = ingested(tmp_path_factory.mktemp("outputs"), MEASURED)
    rng, clock = random.Random(3), Days(32)
    with Workbench.open(folder) as bench:
        live(bench, clock, 18, 0.05, rng)
        live(bench, clock, 14, 0.7, rng, model="http://h/v1#cheap")
        outputs = outputs_at(bench, clock)
        [wrong] = serve_answers(outputs, [BAD], tag="wrong")
        outputs.respond(wrong, by="ann", verdict="rejected", note=NOTE)
        bench.measure_served()
    with served(folder) as server:
        yield server


def shown(running: Running, path: str = "/outputs") -> str:
    reply = running.http.get(path)
    assert reply.status_code == 200
    return reply.text


@pytest.mark.slow
def test_the_verdict_comes_first_and_points_lead_to_answers(drifted: Running) -> None:
    page = shown(drifted)
    verdict = re.search(r'<p class="verdict worse">([^<]+)</p>', page)
    assert verdict is not None
    assert "fell from 0." in verdict[1]
    assert page.index("verdict worse") < page.index("<svg")
    assert 'role="group"' in page
    points = re.findall(r'<a href="([^"]+)" aria-label="([^"]+): its answers"><circle', page)
    address, label = html.unescape(points[-1][0]), points[-1][1]
    count = int(label.rpartition(" of ")[2])
    answers = shown(drifted, address)
    assert len(re.findall(NAME, answers)) == count
    assert f"{count} texts of {label.partition(':')[0]}" in answers
    assert address in html.unescape(page[page.index("Days as a table") :])


def test_feedback_is_counted_and_comments_are_shown_as_text(drifted: Running) -> None:
    page = shown(drifted)
    assert re.search(r"<dt>Rejected by readers</dt><dd>1</dd>", page)
    assert NOTE not in page
    assert "&lt;b&gt;every two years&lt;/b&gt;" in page
    rejected = shown(drifted, "/outputs?verdict=rejected")
    assert "outputs export --verdict rejected" in rejected
    [name] = set(re.findall(r'href="/outputs/([\d.]+)"', rejected))
    assert MEASURE in shown(drifted, f"/outputs/{name}")


def test_texts_have_scores_the_worst_come_first_and_pages_hold_each_once(drifted: Running) -> None:
    first = shown(drifted, f"/outputs?worst={quote(MEASURE)}")
    rows = re.findall(r'<tr><th scope="row"><a href="/outputs/(.*?)</tr>', first)
    scores = [re.search(r'class="fig">([\d.]+)<', one) for one in rows]
    values = [float(score[1]) for score in scores if score]
    assert len(values) == 50
    assert values == sorted(values)
    assert values[0] < 0.5
    names, address = list[str](), "/outputs"
    while address:
        page = shown(drifted, address)
        names += re.findall(NAME, page)
        following = re.search(r'href="([^"]+)">Next</a>', page)
        address = html.unescape(following[1]) if following else ""
    [total] = re.findall(r"([\d,]+) texts", first)
    assert len(names) == len(set(names)) == int(total.replace(",", "")) > 50
    assert drifted.http.get("/outputs?worst=Nonsense").status_code == 400
    assert drifted.http.get("/outputs?day=soon").status_code == 400


def test_outputs_and_testsets_of_a_new_project_say_the_next_step(tmp_path: Path) -> None:
    with served(MakeProject(tmp_path)(MEASURED)) as running:
        assert "ragwright synth" in shown(running, "/testsets")
    folder = ingested(tmp_path)
    with served(folder) as running:
        page = shown(running)
        assert "measure: {share: 0.1}" in page
        assert "<svg" not in page
        running.http.post("/v1/chat/completions", json=asks(QUESTION))
        assert QUESTION in shown(running)
        verdict = {"verdict": "rejected", "note": "dull"}
        assert running.http.post("/outputs/1.1", data=verdict).status_code == 303
        assert "dull" in shown(running, "/outputs/1.1")
        assert QUESTION in shown(running, "/outputs?verdict=rejected")
        assert running.http.get("/outputs/9.9").status_code >= 400
    one = ingested(tmp_path / "one", MEASURED)
    with Workbench.open(one) as bench:
        live(bench, Days(1), 1, 0.0, random.Random(3))
        with served(one, "serve.measure.share=0") as running:
            page = shown(running)
    [x] = set(re.findall(r'class="dot" cx="([\d.]+)"', page))
    assert 300 < float(x) < 400
    [band] = re.findall(r'class="band[^"]*" d="M(-?[\d.]+) ', page)
    assert float(band) > 54, "its interval lies within the plot"


# -- experiments ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_runs_are_listed_with_scores_compared_and_swept(tmp_path: Path) -> None:
    folder = ingested(tmp_path, HANDBOOK)
    asked = {"user_input": QUESTION, "reference": "two years", "split": "tune"}
    unknown = {"user_input": "Who paints zeppelins in Quito?", "reference": "Ana"}
    (folder / "rows.jsonl").write_text(json.dumps(asked) + "\n", "utf-8")
    (folder / "more.jsonl").write_text(f"{json.dumps(asked)}\n{json.dumps(unknown)}\n", "utf-8")
    (folder / "s.yaml").write_text(
        "study: {testset: rows.jsonl, measures: TokenF1, objective: TokenF1}\n"
        "chunk: {size: [20, 60], overlap: 0}\n"
    )
    answers = EvaluationOptions(answers=True)
    with chdir(folder), Workbench.open(".") as bench, served(folder) as running:
        made = [bench.evaluate("rows.jsonl", "TokenF1", answers) for _ in "ab"]
        mean, runs = made[0][0].summaries[0].mean, [summary.run for _, summary in made]
        page = shown(running, "/experiments")
        assert '<th scope="col" class="num">TokenF1</th>' in page
        assert f'<td class="num"><b class="fig">{mean:.3f}</b></td>' in page
        assert "counts an abstention" not in page
        assert all(run in page for run in runs)
        assert f'name="baseline" value="{runs[0]}"' in page, "a baseline is chosen beforehand"
        assert "TokenF1" in shown(running, f"/experiments/{runs[0]}")
        assert 'href="/experiments">← All experiments' in shown(running, f"/experiments/{runs[0]}")
        two = shown(running, f"/compare?baseline={runs[0]}&run={runs[1]}")
        assert " is proven." in two
        assert all(run in two for run in runs)
        for path in ("/experiments/nothing", f"/compare?baseline={runs[0]}&run=nothing"):
            assert running.http.get(path).status_code == 404
        [summary] = bench.evaluate("more.jsonl", "Contains", answers)[0].summaries
        assert (summary.mean, summary.mean_with_abstained, summary.coverage) == (1.0, 0.5, 0.5)
        page = " ".join(shown(running, "/experiments").split())
        assert '<b class="fig">0.500</b><br><span class="note">1.000 on 50 %</span>' in page
        assert "counts an abstention on a row with gold as the worst value" in page
        changed = Session(("retrieve.top_k=1",))
        with Workbench.open(".", changed) as other:
            other.evaluate("rows.jsonl", "TokenF1", answers)
        assert "retrieve.top_k: 5 -&gt; 1" in shown(running, "/experiments")
        sweep = bench.sweep("s.yaml").run
        assert f'href="/experiments/{sweep}"' in shown(running, "/experiments")
        report = shown(running, f"/experiments/{sweep}")
        assert "chunk.size" in report
        assert "Leaderboard" in report
        assert shown(running, f"/experiments/{sweep}:T001")
