"""Pages opened in a real browser."""

from __future__ import annotations

import shutil
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


def opened(browser: Any, address: str, faults: list[str], **how: Any) -> Any:
    """A page; whatever its console says, its scripts throw and its dialogs ask is a fault."""
    page = browser.new_page(**how)
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(address)
    return page


def until(page: Any, script: str, arg: Any = None, seconds: float = 30) -> None:
    """Wait until a script of the page gives true.

    Not ``wait_for_function``: its second look evaluates a string, which our policy forbids.
    """
    for _ in range(int(seconds / 0.025)):
        if page.evaluate(script, arg):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {script}")
