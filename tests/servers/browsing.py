"""Pages opened in a real browser."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"),
]


def opened(browser: Any, address: str, faults: list[str], **how: Any) -> Any:
    """A page; whatever its console says, its scripts throw and its dialogs ask is a fault."""
    page = browser.new_page(**how)
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(address)
    return page
