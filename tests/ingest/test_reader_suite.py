"""Our own readers under the suite that strangers' readers are held to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_site import Answer, Site, fetch_bytes, running_site
from test_arxiv import PDF, entry, feed
from test_wikipedia import api

from ragwright.ingest import (
    ArxivReader,
    BeirReader,
    FetchBytes,
    FileReader,
    Reader,
    WebReader,
    WikipediaReader,
)
from ragwright.testing import ReaderSuite


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        yield made


class Online(ReaderSuite):
    @pytest.fixture
    def fetch(self) -> FetchBytes:
        return fetch_bytes


class TestWeb(Online):
    @pytest.fixture
    def reader(self) -> Reader:
        return WebReader()

    @pytest.fixture
    def source(self, site: Site) -> str:
        site.routes["/p"] = Answer(
            "<h1>Cafe\u0301</h1>\r\n<p>Some text\u2028of a page.</p>",
            headers={"Content-Type": "text/html; charset=utf-8"},
        )
        return f"{site.base}/p"

    @pytest.fixture
    def missing(self, site: Site) -> str:
        return f"{site.base}/none"


class TestWikipedia(Online):
    @pytest.fixture
    def reader(self, site: Site) -> Reader:
        site.routes["/w/api.php"] = api
        return WikipediaReader(base=site.base)

    @pytest.fixture
    def source(self) -> str:
        return "wikipedia:Bicycle pump"

    @pytest.fixture
    def missing(self) -> str:
        return "wikipedia:No such page"


class TestArxiv(Online):
    @pytest.fixture
    def reader(self, site: Site) -> Reader:
        site.routes["/api"] = lambda query: (
            feed(entry("2401.01234v1")) if query["id_list"] == "2401.01234" else feed()
        )
        site.routes["/pdf/2401.01234v1"] = PDF
        return ArxivReader(api=f"{site.base}/api", site=site.base)

    @pytest.fixture
    def source(self) -> str:
        return "arxiv:2401.01234"

    @pytest.fixture
    def missing(self) -> str:
        return "arxiv:2401.99999"


class TestBeir(ReaderSuite):
    @pytest.fixture
    def reader(self) -> Reader:
        return BeirReader()

    @pytest.fixture
    def source(self, tmp_path: Path) -> str:
        text = "Cafe\u0301\r\n\u00adx \ud800"
        lines = [{"_id": n, "title": "T", "text": text, "metadata": {"k": [1, n]}} for n in "ab"]
        (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
        return f"beir:{tmp_path}"

    @pytest.fixture
    def missing(self, tmp_path: Path) -> str:
        return f"beir:{tmp_path}/none"


class TestFiles(ReaderSuite):
    @pytest.fixture
    def reader(self, tmp_path: Path) -> Reader:
        return FileReader(base=tmp_path)

    @pytest.fixture
    def source(self, tmp_path: Path) -> str:
        (tmp_path / "a.md").write_text("# A\r\n\r\nCafe\u0301\u00ad.\n\n## B\n\nMore.", "utf-8")
        (tmp_path / "b.txt").write_text("first page\fsecond page", "utf-8")
        return "."

    @pytest.fixture
    def missing(self) -> str:
        return "none.txt"
