"""Every page: accessible in both colour schemes at two widths, its links open, none is heavy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from browsing import opened
from served import HANDBOOK, Running, key, served
from small_project import CODES, MANUAL, QUESTION, MakeProject

from ragwright import EvaluationOptions, Session, Workbench

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
SWEEP = (
    "study: {testset: testsets/main.jsonl, measures: TokenF1}\n"
    "chunk: {size: [20, 60], overlap: 0}\n"
)
PAGES = {
    "first": "/", "ask": "/?q=brake+fluid&persona=*", "sources": "/sources",
    "source": "/source?id=docs%2Fservice.md", "testsets": "/testsets",
    "review": "/testsets/main.jsonl", "experiments": "/experiments",
    "sweep": "/experiments/SWEEP", "trial": "/experiments/SWEEP:T001",
    "run": "/experiments/after", "compare": "/compare?baseline=before&run=after",
    "outputs": "/outputs", "output": "/outputs/1.1", "error": "/experiments/nothing",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with something on every page, and the name of its sweep."""
    pay = "---\ngroups: [hr]\n---\n# Pay\n\nThe pay rises in May.\n"
    texts = {"service.md": MANUAL, "codes.md": CODES, "pay.md": pay, "broken.pdf": "no PDF"}
    folder = MakeProject(tmp_path_factory.mktemp("pages"))(HANDBOOK, **texts)
    (folder / "testsets").mkdir()
    (folder / "testsets/main.jsonl").write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    (folder / "s.yaml").write_text(SWEEP)
    with chdir(folder):
        for name, most in (("before", 1), ("after", 4)):
            with Workbench.open(".", Session((f"retrieve.top_k={most}",))) as bench:
                bench.ingest()
                options = EvaluationOptions(answers=True, name=name)
                bench.evaluate("testsets/main.jsonl", "TokenF1,nDCG@5", options)
        with Workbench.open(".") as bench:
            return folder, bench.sweep("s.yaml").run


@pytest.fixture(scope="module")
def addresses(project: tuple[Path, str]) -> Iterator[tuple[Running, dict[str, str]]]:
    """A server without keys, and the paths of its pages."""
    folder, sweep = project
    with served(folder) as running:
        running.ask(QUESTION)
        yield running, {name: path.replace("SWEEP", sweep) for name, path in PAGES.items()}


# -- the links and forms that the role of a reader may open, and no others -------------------------

SEEN = {"reader": {"/", "/sources"}}
SEEN["restricted reviewer"] = SEEN["narrow reviewer"] = SEEN["reader"]
SEEN["reviewer"] = {*SEEN["reader"], "/testsets"}
SEEN["owner"] = {*SEEN["reviewer"], "/experiments", "/outputs"}
LINK = re.compile(r'<[^>]* (?:href|hx-get)="([^"]+)"')
HIDDEN = re.compile(r"<template.*?</template>", re.DOTALL)
"""What a page shows once it holds an answer."""
FORM = re.compile(r'<form[^>]* method="post"[^>]* action="([^"]+)"|hx-post="([^"]+)"')


@pytest.fixture(scope="module")
def keyed(
    project: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("keyed") / "project"
    shutil.copytree(project[0], folder)
    hr: Any = {"groups": ("hr",)}
    rights: dict[str, tuple[str, dict[str, Any]]] = {
        "reader": ("reader", hr),
        "restricted reviewer": ("reviewer", {}),
        "narrow reviewer": ("reviewer", {**hr, "filters": ("source=docs/service.md",)}),
        "reviewer": ("reviewer", hr),
        "owner": ("owner", {}),
    }
    keys = {name: key(folder, name, role, **more) for name, (role, more) in rights.items()}
    with served(folder) as running:
        yield running, keys


def crawled(client: httpx2.Client) -> tuple[dict[str, int], set[str]]:
    """Status of every page that is linked from the first one, and the addresses of all forms."""
    waiting, statuses, forms = ["/"], dict[str, int](), set[str]()
    while waiting:
        path = waiting.pop()
        if path in statuses:
            continue
        reply = client.get(path, headers={"accept": "text/html"})
        statuses[path] = reply.status_code
        if "text/html" not in reply.headers.get("content-type", ""):
            continue
        shown = HIDDEN.sub("", reply.text)
        for link in map(unescape, LINK.findall(shown)):
            address = urlsplit(urljoin(f"http://here{path}", link))
            if address.netloc == "here" and not address.path.startswith("/static"):
                waiting.append(f"{address.path}?{address.query}".rstrip("?"))
        forms |= {unescape(one or other) for one, other in FORM.findall(shown)}
    return statuses, forms


@pytest.mark.parametrize("role", SEEN)
def test_every_link_of_every_page_opens(keyed: tuple[Running, dict[str, str]], role: str) -> None:
    running, keys = keyed
    client: Any = running.client(keys[role])
    asked = client.post("/", data={"q": QUESTION})
    assert asked.status_code == 200
    navigation = re.search(r'<nav aria-label="Sections">.*?</nav>', asked.text, re.DOTALL)
    assert navigation
    assert set(LINK.findall(navigation[0])) == SEEN[role]
    statuses, forms = crawled(client)
    assert {path: status for path, status in statuses.items() if status != 200} == {}
    assert {urlsplit(path).path for path in statuses} >= SEEN[role]
    assert any(path.startswith("/source?") for path in statuses)
    assert any(path.startswith("/experiments/") for path in statuses) is (role == "owner")
    refused = {
        form
        for form in sorted(forms - {"/logout"}, key=lambda form: form.endswith("/delete"))
        if client.post(form, data={}, follow_redirects=False).status_code in {403, 404, 405}
    }
    assert refused == set()


# -- in a real browser ---------------------------------------------------------------------------

WIDER = """[...document.querySelectorAll('.scroll > table')]
.filter((table) => table.offsetWidth > table.parentElement.clientWidth + 1
  && !(table.matches('.board') && getComputedStyle(table.parentElement).overflowX === 'auto'))
.map((table) => table.parentElement.ariaLabel)"""
"""Tables of a page that are cut at its right edge."""
OPENS = """[...document.querySelectorAll('details:not([open]) > summary')]
.slice(0, 5).forEach(summary => summary.click())"""
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


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page that shows one address after the other, and the faults of the present one.

    A page of its own for each would be a process of its own.
    """
    faults: list[str] = []
    page = opened(browser, "about:blank", faults)
    yield page, faults
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_and_nothing_overflows(
    axe: Any, tab: tuple[Any, list[str]], addresses: tuple[Running, dict[str, str]], name: str
) -> None:
    running, paths = addresses
    page, faults = tab
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    faults.clear()
    page.goto(running.address + paths[name])
    if name == "ask":  # the question of its address is asked, and answered
        page.click("#ask button.go")
        page.wait_for_selector("#turns[aria-busy=false] .snippet")
        page.click(".turn a.mark >> nth=0")
        page.wait_for_selector("#beside mark")
    assert page.locator("h1").count() == 1
    assert not [fault for fault in faults if "404" not in fault], "nothing is blocked by the policy"
    page.evaluate(OPENS)
    page.wait_for_load_state("networkidle")
    checked(axe, page)
    # On a phone tables are read row by row; only leaderboards scroll, and a shadow shows it.
    assert page.evaluate(WIDER) == []


@pytest.mark.slow
def test_what_people_see_of_their_account_is_accessible(
    browser: Any, axe: Any, keyed: tuple[Running, dict[str, str]]
) -> None:
    running, _ = keyed
    name = "ann.with-a-long-name@department.example.org"
    page = opened(browser, f"{running.address}/login", [], bypass_csp=True)
    checked(axe, page)
    page.fill("#key", "rw_wrong")
    page.click("button")
    page.wait_for_selector("#wrong")
    checked(axe, page)
    page.fill("#key", key(running.folder, name, "owner"))
    page.click("button")
    page.wait_for_selector("#ask")
    for path in ("/", "/outputs/none"):
        page.goto(f"{running.address}{path}")
        page.get_by_label(f"Account of {name}").click()
        assert page.get_by_role("button", name="Sign out").is_visible()
        checked(axe, page)
    page.close()
