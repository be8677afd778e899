"""The page of outputs: the verdict, the plot, what changed, feedback; also in a real browser."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from served import Running, served
from served_answers import BAD, Days, live, outputs_at, serve_answers
from small_project import MakeProject

from ragwright import Workbench

DAYS = 33
NOTE = "It must say <b>every two years</b>."


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = MakeProject(tmp_path_factory.mktemp("outputs"))(
        "serve: {name: handbook, measure: {share: 1, window: 14}}\n"
    )
    rng, clock = random.Random(3), Days(32)
    with Workbench.open(folder) as bench:
        bench.ingest()
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
def test_the_verdict_comes_first_and_names_what_changed(running: Running) -> None:
    page = shown(running)
    verdict = re.search(r'<p class="verdict worse">([^<]+)</p>', page)
    assert verdict is not None
    assert "fell from 0." in verdict[1]
    assert "the model changed" in verdict[1]
    assert page.index("verdict worse") < page.index("<svg")
    assert 'role="group"' in page
    changed = page[page.index("What changed") :]
    assert "<td>small</td><td>cheap</td>" in changed


@pytest.mark.slow
def test_one_day_is_drawn_in_the_middle(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {name: handbook, measure: {share: 1, window: 14}}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
        live(bench, Days(1), 1, 0.0, random.Random(3))
        with served(folder, "serve.measure.share=0") as server:
            page = shown(server)
    [x] = set(re.findall(r'class="dot" cx="([\d.]+)"', page))
    assert 300 < float(x) < 400
    [band] = re.findall(r'class="band[^"]*" d="M(-?[\d.]+) ', page)
    assert float(band) > 54, "its interval lies within the plot"


def test_feedback_is_counted_and_comments_are_shown_as_text(running: Running) -> None:
    page = shown(running)
    assert re.search(r"<dt>Rejected by readers</dt><dd>1</dd>", page)
    assert NOTE not in page
    assert "&lt;b&gt;every two years&lt;/b&gt;" in page
    rejected = shown(running, "/outputs?verdict=rejected")
    assert "outputs export --verdict rejected" in rejected
    [name] = set(re.findall(r'href="/outputs/([\d.]+)"', rejected))
    assert "KPrecision(content+bigrams)" in shown(running, f"/outputs/{name}")


MEASURE = "KPrecision(content+bigrams)"


def test_texts_have_scores_the_worst_come_first_and_pages_hold_each_once(running: Running) -> None:
    def scores(page: str) -> list[tuple[str, float]]:
        rows = re.findall(r'<tr><th scope="row"><a href="/outputs/(.*?)</tr>', page)
        return [
            (row.split('"')[0], float(value[1]))
            for row in rows
            if (value := re.search(r'class="fig">([\d.]+)<', row))
        ]

    first = shown(running, f"/outputs?worst={quote(MEASURE)}")
    values = [value for _, value in scores(first)]
    assert len(values) == 50
    assert values == sorted(values)
    assert values[0] < 0.5
    names, address = list[str](), "/outputs"
    while address:
        page = shown(running, address)
        names += re.findall(r'<th scope="row"><a href="/outputs/([\d.]+)">', page)
        following = re.search(r'href="([^"]+)">Next</a>', page)
        address = html.unescape(following[1]) if following else ""
    assert len(names) == len(set(names)) > 50
    [total] = re.findall(r"([\d,]+) texts", first)
    assert len(names) == int(total.replace(",", ""))
    assert running.http.get("/outputs?worst=Nonsense").status_code == 400
    assert running.http.get("/outputs?day=soon").status_code == 400


def test_a_point_of_drift_leads_to_its_answers(running: Running) -> None:
    page = shown(running)
    points = re.findall(r'<a href="([^"]+)" aria-label="([^"]+): its answers"><circle', page)
    address, label = points[-1]
    count = int(label.rpartition(" of ")[2])
    answers = shown(running, html.unescape(address))
    assert len(re.findall(r'<th scope="row"><a href="/outputs/[\d.]+">', answers)) == count
    assert f"{count} texts of {label.partition(':')[0]}" in answers
    assert html.unescape(address) in html.unescape(page[page.index("Days as a table") :])


def test_an_empty_page_says_the_next_step(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as server:
        page = shown(server)
    assert "measure: {share: 0.1}" in page
    assert "<svg" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    "look",
    [
        {"viewport": {"width": 1280, "height": 900}},
        {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"},
    ],
)
def test_axe_finds_nothing_and_the_plot_fits(
    browser: Any, axe: Any, running: Running, look: dict[str, Any]
) -> None:
    faults: list[str] = []
    page = browser.new_page(bypass_csp=True, **look)
    page.on("console", lambda message: faults.append(message.text))
    page.goto(f"{running.address}/outputs")
    report = axe.Axe().run(page)
    assert report.violations_count == 0, report.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("svg.drift circle.dot").count() == DAYS
    box = page.locator("svg.drift").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= look["viewport"]["width"]
    page.locator("summary", has_text="Days as a table").click()
    assert page.locator("details[open] tbody tr").count() == DAYS
    page.close()
    assert not faults
