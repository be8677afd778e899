"""One browser for all tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import BROWSER


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    play = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with play.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()
