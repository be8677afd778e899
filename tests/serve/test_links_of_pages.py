"""Every page shows the links and forms that the role of its reader may open, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from served import Running, served
from small_project import MANUAL, MakeProject
from test_reader_groups import key

from ragwright import EvaluationOptions, Session, Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"
SECRET = "---\ngroups: [hr]\n---\n# Pay\n\nThe pay rises in May.\n"
SPAN = {"document_id": "docs/service.md", "start": 30, "end": 80, "text": MANUAL[30:80]}
ROW = {"id": "q1", "user_input": QUESTION, "reference": "two years", "reference_spans": [SPAN]}
PAGES = {"reader": {"/", "/sources"}}
PAGES["hindered reviewer"] = PAGES["narrow reviewer"] = PAGES["reader"]
PAGES["reviewer"] = {*PAGES["reader"], "/testsets"}
PAGES["owner"] = {*PAGES["reviewer"], "/experiments", "/outputs"}
_LINK = re.compile(r'<[^>]* (?:href|hx-get)="([^"]+)"')
_HIDDEN = re.compile(r"<template.*?</template>", re.DOTALL)
"""What a page shows once it holds an answer."""
_FORM = re.compile(r'<form[^>]* method="post"[^>]* action="([^"]+)"|hx-post="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = MakeProject(tmp_path_factory.mktemp("pages"))(
        "serve: {name: handbook}\n", **{"service.md": MANUAL, "pay.md": SECRET}
    )
    (folder / "testsets").mkdir()
    (folder / "testsets/main.jsonl").write_text(json.dumps(ROW), "utf-8")
    with chdir(folder):
        for name, most in (("before", 1), ("after", 2)):
            with Workbench.open(".", Session((f"retrieve.top_k={most}",))) as bench:
                bench.ingest()
                how = EvaluationOptions(answers=True, name=name)
                bench.evaluate("testsets/main.jsonl", "TokenF1,nDCG@5", how)
    with served(folder) as running:
        yield running, made_keys(folder)


def made_keys(folder: Path) -> dict[str, str]:
    narrow = ServeKey("narrow", "reviewer", filters=("source=docs/service.md",), groups=("hr",))
    return {
        "reader": key(folder, "reader", "hr"),
        "hindered reviewer": key(folder, "hindered", role="reviewer"),
        "narrow reviewer": ServeKeys(ProjectFolder(folder)).add(narrow),
        "reviewer": key(folder, "reviewer", "hr", role="reviewer"),
        "owner": key(folder, "owner", role="owner"),
    }


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
        shown = _HIDDEN.sub("", reply.text)
        for link in map(unescape, _LINK.findall(shown)):
            address = urlsplit(urljoin(f"http://here{path}", link))
            if address.netloc == "here" and not address.path.startswith("/static"):
                waiting.append(f"{address.path}?{address.query}".rstrip("?"))
        forms |= {unescape(one or other) for one, other in _FORM.findall(shown)}
    return statuses, forms


@pytest.mark.parametrize("role", PAGES)
def test_every_link_of_every_page_opens(site: tuple[Running, dict[str, str]], role: str) -> None:
    """The navigation holds the pages of the role, and no link or form leads to a refusal."""
    running, keys = site
    client: Any = running.client(keys[role])
    asked = client.post("/", data={"q": QUESTION})
    assert asked.status_code == 200
    navigation = re.search(r'<nav aria-label="Sections">.*?</nav>', asked.text, re.DOTALL)
    assert navigation
    assert set(_LINK.findall(navigation[0])) == PAGES[role]
    statuses, forms = crawled(client)
    assert {path: status for path, status in statuses.items() if status != 200} == {}
    assert {urlsplit(path).path for path in statuses} >= PAGES[role]
    assert any(path.startswith("/source?") for path in statuses)
    if role == "owner":
        assert any(path.startswith("/experiments/") for path in statuses)
    refused = {
        form
        for form in sorted(forms - {"/logout"}, key=lambda form: form.endswith("/delete"))
        if client.post(form, data={}, follow_redirects=False).status_code in {403, 404, 405}
    }
    assert refused == set()
