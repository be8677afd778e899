"""The documentation site builds, its search finds pages, and nothing comes from another host."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.needs_site]


class Quiet(SimpleHTTPRequestHandler):
    """Files, without a log."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Address of the site, built now."""
    built = subprocess.run(
        [sys.executable, "docs/site.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    files = functools.partial(Quiet, directory=ROOT / "build" / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_search_finds_pages_and_asks_no_other_host(browser: Any, site: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{site}/index.html")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_placeholder("Search").fill("reciprocal rank fusion")
    link = page.locator("a[href*='hybrid-search.html?h=']").first
    link.wait_for()
    link.click()
    page.wait_for_url("**/guide/hybrid-search.html*")
    assert "reciprocal rank fusion" in page.inner_text("body").lower()
    page.close()
    assert faults == []
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
