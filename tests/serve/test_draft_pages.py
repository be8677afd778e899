"""Drafts in the pages: values that exist, prices, prompts, texts kept or discarded."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.drafting import OutputQuery
from ragwright.project import init_project
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

TEXTS = [
    "It's Maya. Clinics may close on Friday. Will you chip in $10 to keep the doors open?",
    "Maya here: <img src=x onerror=alert(1)> three nurses, forty patients. $15 keeps it open.",
    "Hi, it's Maya. " + "The night clinic needs you. " * 8,
]
ASKED = {
    "client": "Maya Delgado",
    "ask_type": "donation",
    "topics": "health care",
    "tones": "urgent",
    "length": "short",
    "count": "3",
}


def reply(request: ServerRequest) -> Reply:
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(TEXTS, 1))
    return Reply(listed if "Write 3" in request.prompt else TEXTS[2])


@pytest.fixture(scope="module")
def outreach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drafts") / "outreach"
    init_project(folder, template="records")
    with Workbench.open(folder) as bench:
        bench.records.refresh()
    return folder


@pytest.fixture(scope="module")
def running(outreach: Path) -> Iterator[Running]:
    with ScriptedServer(reply) as model:
        name = f"{model.url}#writer"
        priced = f"models={{'{name}': {{price_in: 1000, price_out: 2000}}}}"
        with served(outreach, f"answer.model={name}", priced) as server:
            yield server


def test_values_of_the_records_are_offered_and_a_wrong_one_is_explained(running: Running) -> None:
    form = running.http.get("/drafts").text
    assert '<option value="Maya Delgado">' in form
    assert 'value="health care"' in form
    assert "soft filters" in form
    wrong = running.http.post("/drafts", data={**ASKED, "client": "Maja Delgad"})
    assert wrong.status_code == 400
    assert "nearest: Maya Delgado" in wrong.text
    assert 'value="Maja Delgad"' in wrong.text, "what was typed stays"
    assert running.http.post("/drafts", data={**ASKED, "count": "0"}).status_code == 400


def test_the_price_and_the_prompt_are_shown_and_store_nothing(running: Running) -> None:
    before = running.http.get("/drafts").text.count("/drafts/")
    price = running.http.post("/drafts", data={**ASKED, "action": "price"}).text
    assert re.search(r"[\d.]+ calls, cost [\d.]+", price)
    prompt = running.http.post("/drafts", data={**ASKED, "action": "preview"}).text
    assert "Write 3 such texts" in html.unescape(prompt)
    assert "level 18" in prompt, "client 8, ask 5, topic 3, length 2; no record has the tone too"
    assert "misses" in prompt
    assert running.http.get("/drafts").text.count("/drafts/") == before


def test_texts_are_drafted_checked_kept_and_discarded(running: Running, outreach: Path) -> None:
    done = running.http.post("/drafts", data=ASKED)
    assert done.status_code == 303
    address = done.headers["location"]
    shown = running.http.get(address).text
    assert "too long:" in shown
    assert "<img src=x" not in shown
    assert "level " in shown
    assert re.search(r"calls, cost [\d.]+", shown)
    assert running.http.post(f"{address}/1", data={"verdict": "keep"}).status_code == 303
    running.http.post(f"{address}/3", data={"verdict": "discard"})
    assert running.http.post(f"{address}/3", data={"verdict": "burn"}).status_code == 400
    assert running.http.post(f"{address}/99", data={"verdict": "keep"}).status_code == 404
    other = running.http.post(
        f"{address}/1", data={"verdict": "discard"}, headers={"origin": "https://other.example"}
    )
    assert other.status_code == 403
    number = address.rpartition("/")[2]
    with Workbench.open(outreach) as bench:
        kept = bench.outputs.find(OutputQuery(verdict="accepted", scope=None))
        gone = bench.outputs.find(OutputQuery(verdict="rejected", scope=None))
        assert [output.id for output in kept] == [f"{number}.1"], "as `ragwright outputs` sees it"
        assert [output.id for output in gone] == [f"{number}.3"]
    assert running.http.get("/drafts/999").status_code == 404


def test_the_number_of_an_answer_is_no_draft(running: Running, outreach: Path) -> None:
    def batches() -> set[int]:
        with Workbench.open(outreach) as bench:
            return {output.batch for output in bench.outputs.find(OutputQuery(scope=None))}

    before = batches()
    messages = [{"role": "user", "content": "Which boots are waterproof?"}]
    assert running.http.post("/v1/chat/completions", json={"messages": messages}).is_success
    (answer,) = batches() - before
    assert running.http.get(f"/drafts/{answer}").status_code == 404


def test_a_spent_budget_is_said(outreach: Path) -> None:
    with ScriptedServer(reply) as model:
        name = f"{model.url}#writer"
        priced = f"models={{'{name}': {{price_in: 1000, price_out: 2000}}}}"
        with served(
            outreach, f"answer.model={name}", priced, "serve.daily_budget=0.000001"
        ) as running:
            running.http.post("/drafts", data={**ASKED, "count": "4"})
            done = running.http.post("/drafts", data={**ASKED, "count": "2"})
    assert done.status_code == 429
    assert "budget of today is spent" in done.text


def test_without_records_or_a_model_the_page_says_what_to_do(
    tmp_path: Path, outreach: Path
) -> None:
    with served(MakeProject(tmp_path)()) as running:
        assert "ragwright init --template records" in running.http.get("/drafts").text
    with served(outreach) as running:
        form = running.http.get("/drafts").text
    assert "No chat model is configured" in form
    assert 'value="draft"' not in form


def test_a_draft_goes_by_keyboard(browser: Any, axe: Any, running: Running) -> None:
    faults: list[str] = []
    page = opened(browser, f"{running.address}/drafts", faults)
    page.focus("#client")
    page.keyboard.type("Maya Delgado")
    page.select_option("#ask_type", "donation")
    page.focus("input[name=topics][value='health care']")
    page.keyboard.press("Space")
    page.focus("button[value=draft]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".draft")
    assert page.locator(".draft").count() == 3
    page.focus("button[aria-label='Keep text 2']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#text-2 .state-accepted")
    assert page.locator(".state-accepted").count() == 1
    assert not faults
    address = page.url
    page.close()
    page = opened(browser, address, [], bypass_csp=True)  # axe is a script of its own
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            report = axe.Axe().run(page)
            assert report.violations_count == 0, report.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
