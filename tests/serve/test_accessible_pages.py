"""Every page in both colour schemes at two widths: axe finds nothing, nothing overflows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from served import Running, served
from small_project import MANUAL, MakeProject

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

pytestmark = pytest.mark.slow

QUESTION = "How often must the brake fluid be changed?"
SPAN = {"document_id": "docs/service.md", "start": 30, "end": 80, "text": MANUAL[30:80]}
ROWS = [
    {
        "id": f"q{n}",
        "user_input": question,
        "reference": reference,
        "reference_spans": [SPAN],
        "metadata": {"split": "tune", "leak": 0.7, "kind": "cloze"},
    }
    for n, (question, reference) in enumerate(
        [(QUESTION, "two years"), ("How often must the coolant be changed?", "five years")]
    )
]
PAGES = {
    "first": "/",
    "ask": "/?q=brake+fluid&persona=*",
    "sources": "/sources",
    "source": "/source?id=docs%2Fservice.md",
    "testsets": "/testsets",
    "review": "/testsets/main.jsonl",
    "experiments": "/experiments",
    "sweep": "/experiments/SWEEP",
    "trial": "/experiments/SWEEP:T001",
    "run": "/experiments/after",
    "compare": "/compare?baseline=before&run=after",
    "outputs": "/outputs",
    "output": "/outputs/1.1",
    "error": "/experiments/nothing",
}


WIDER = """[...document.querySelectorAll('.scroll > table')]
.filter((table) => table.offsetWidth > table.parentElement.clientWidth + 1
  && !(table.matches('.board') && getComputedStyle(table.parentElement).overflowX === 'auto'))
.map((table) => table.parentElement.ariaLabel)"""
"""Tables of a page that are cut at its right edge."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    folder = MakeProject(tmp_path_factory.mktemp("pages"))(
        "serve: {name: handbook, personas: [engineer, marketing]}\n"
    )
    (folder / "docs" / "broken.pdf").write_text("no PDF")
    (folder / "testsets").mkdir()
    rows = "\n".join(map(json.dumps, ROWS))
    (folder / "testsets" / "main.jsonl").write_text(rows, "utf-8")
    (folder / "s.yaml").write_text(
        "study: {testset: testsets/main.jsonl, measures: TokenF1, objective: [TokenF1, "
        "context_tokens]}\nchunk: {size: [20, 60], overlap: 0}\n"
    )
    with chdir(folder):
        for name, most in (("before", 1), ("after", 4)):
            with Workbench.open(".", Session((f"retrieve.top_k={most}",))) as bench:
                bench.ingest()
                options = EvaluationOptions(answers=True, name=name)
                bench.evaluate("testsets/main.jsonl", "TokenF1,nDCG@5", options)
        with Workbench.open(".") as bench:
            sweep = bench.sweep("s.yaml").run
    with served(folder) as running:
        running.ask(QUESTION)
        yield running, sweep


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page that shows one address after the other, and the faults of the present one."""
    faults: list[str] = []
    page = opened(browser, "about:blank", faults)
    yield page, faults
    page.close()


def shown(tab: tuple[Any, list[str]], address: str) -> tuple[Any, list[str]]:
    """The same page at another address: a page of its own would be a process of its own."""
    page, faults = tab
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    faults.clear()
    page.goto(address)
    return tab


def answered(page: Any) -> None:
    """On the page that asks: the question of its address is asked, and answered."""
    if page.locator("#ask").count() and page.input_value("#q"):
        page.click("#ask button.go")
        page.wait_for_selector("#turns[aria-busy=false] .snippet")
        page.click(".turn a.mark >> nth=0")
        page.wait_for_selector("#beside mark")


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_and_nothing_overflows(
    axe: Any, tab: tuple[Any, list[str]], pages: tuple[Running, str], name: str
) -> None:
    running, sweep = pages
    page, faults = shown(tab, running.address + PAGES[name].replace("SWEEP", sweep))
    answered(page)
    assert page.locator("h1").count() == 1
    assert not [fault for fault in faults if "404" not in fault], "nothing is blocked by the policy"
    page.evaluate(
        "[...document.querySelectorAll('details:not([open]) > summary')]"
        ".slice(0, 5).forEach(summary => summary.click())"
    )
    page.wait_for_load_state("networkidle")
    checked(axe, page)
    # On a phone tables are read row by row; only leaderboards scroll, and a shadow shows it.
    assert page.evaluate(WIDER) == []


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("document.querySelector('main').append(document.createElement('img'))", "image-alt"),
        (
            "document.querySelector('h1').style.color = "
            "matchMedia('(prefers-color-scheme: dark)').matches ? '#222' : '#eee'",
            "color-contrast",
        ),
    ],
)
def test_axe_finds_a_planted_fault(
    browser: Any, axe: Any, pages: tuple[Running, str], fault: str, rule: str
) -> None:
    page = opened(browser, pages[0].address + "/sources", [])
    page.evaluate(fault)
    with pytest.raises(AssertionError, match=rule):
        checked(axe, page)
    page.emulate_media(color_scheme="dark")
    page.evaluate(fault)
    in_the_dark = examined(axe, page, COLOURS).violations_count
    assert bool(in_the_dark) == (rule == "color-contrast")
    page.close()


def test_the_page_of_a_key_is_accessible_too(
    browser: Any, axe: Any, pages: tuple[Running, str]
) -> None:
    page = opened(browser, pages[0].address + "/login", [], bypass_csp=True)
    report = axe.Axe().run(page)
    assert report.violations_count == 0, report.generate_report()
    page.close()


def test_what_people_see_of_their_account_is_accessible(
    browser: Any, axe: Any, tmp_path: Path
) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench:
        bench.ingest()
    name = "ann.with-a-long-name@department.example.org"
    secret = ServeKeys(ProjectFolder(folder)).add(ServeKey(name, "owner"))
    with served(folder) as running:
        page = opened(browser, f"{running.address}/login", [], bypass_csp=True)
        page.fill("#key", "rw_wrong")
        page.click("button")
        page.wait_for_selector("#wrong")
        checked(axe, page)
        page.fill("#key", secret)
        page.click("button")
        page.wait_for_selector("#ask")
        for path in ("/", "/outputs/none"):
            page.goto(f"{running.address}{path}")
            page.get_by_label(f"Account of {name}").click()
            assert page.get_by_role("button", name="Sign out").is_visible()
            checked(axe, page)
        page.close()


EVERYTHING: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS = {
    **EVERYTHING,
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}
"""The rules of axe that depend on colours."""


def examined(axe: Any, page: Any, options: dict[str, Any]) -> Any:
    """What axe finds; unlike ``Axe.run``, which loads it again each time, a page loads it once."""
    if page.evaluate("window.axe === undefined"):
        page.evaluate(axe.Axe().axe_script)
    return axe.AxeResults(page.evaluate("(options) => axe.run(options)", options))


def checked(axe: Any, page: Any) -> None:
    """Axe finds nothing, and nothing is wider than the page, on a phone and in the dark too.

    Colours are looked at in both schemes at both widths, all else once for each width.
    """
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme, options in (("light", EVERYTHING), ("dark", COLOURS)):
            page.emulate_media(color_scheme=scheme)
            report = examined(axe, page, options)
            assert report.violations_count == 0, report.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_no_page_is_heavy(pages: tuple[Running, str]) -> None:
    running, sweep = pages
    shared = sum(
        len(running.http.get(f"/static/{name}").content)
        for name in ("pages.css", "pages.js", "htmx.min.js")
    )
    sizes = {
        name: len(running.http.get(path.replace("SWEEP", sweep)).content)
        for name, path in PAGES.items()
        if name not in ("sweep", "trial", "run", "compare")  # reports hold their charts and rows
    }
    assert all(shared + size < 150_000 for size in sizes.values()), sizes
