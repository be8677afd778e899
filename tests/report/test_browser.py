"""A report in a real browser: nothing hostile runs, nothing is fetched, every row opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from study_subject import HOSTILE, MakeStudy

from ragwright.report import Report

pytestmark = pytest.mark.slow


class Opened:
    """A report opened, with all that went wrong meanwhile."""

    def __init__(self, browser: Any, path: Path, **how: Any) -> None:
        self.page = browser.new_page(**how)
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.until("!!document.querySelector('#list[data-ready]')")

    def until(self, what: str) -> None:
        # Not wait_for_function: it evaluates a string in the page, which the policy forbids.
        for _ in range(400):
            if self.page.evaluate(what):
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"never: {what}; {self.faults}")

    def drawn(self) -> None:
        self.until(
            "document.querySelectorAll('[data-chart]').length === "
            "document.querySelectorAll('[data-drawn]').length"
        )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "hostile.html"
    path.write_text(Report(MakeStudy(text=HOSTILE)(8)).html(), "utf-8")
    return path


def test_hostile_documents_are_shown_and_never_run(browser: Any, hostile: Path) -> None:
    opened = Opened(browser, hostile)
    page = opened.page
    opened.drawn()
    page.click("#list .line")
    opened.until("!!document.querySelector('.opened .answer')")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert "window.broken = 1" in page.inner_text(".opened .answer")
    assert "<img src=x" in page.inner_text(".opened .prompt >> nth=0")
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.querySelectorAll('main img').length") == 0
    assert opened.asked == [hostile.as_uri()]
    assert not opened.faults


def test_rows_side_by_side_and_links_to_them(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.html"
    path.write_text(Report(MakeStudy(rows=70)(8)).html(), "utf-8")
    opened = Opened(browser, path)
    page = opened.page
    assert page.evaluate("document.querySelectorAll('#list .row').length") == 50
    page.click("#more")
    assert page.evaluate("document.querySelectorAll('#list .row').length") == 70
    page.select_option("#pick-with", "T000")
    opened.until("document.querySelector('#count').textContent.includes('against T000')")
    changes = page.evaluate(
        "[...document.querySelectorAll('#list b')].map((one) => Math.abs(+one.textContent))"
    )
    assert changes
    assert changes == sorted(changes, reverse=True)
    page.select_option("#pick-persona", "marketing")
    opened.until("document.querySelector('#count').textContent.startsWith('35 of 70')")
    page.fill("#find", "q31 number")
    opened.until("document.querySelector('#count').textContent.startsWith('1 of 70')")
    page.click("#list .line")
    opened.until("document.querySelectorAll('.opened .answer').length === 2")
    link = page.evaluate("document.querySelector('.opened .note a').getAttribute('href')")
    assert "row=q31" in link
    again = Opened(browser, path)
    again.page.goto(path.as_uri() + link)
    again.page.reload()
    again.until("document.querySelectorAll('.opened .answer').length === 2")
    assert "q31" in again.page.inner_text(".row:has(.opened) .id")
    assert not opened.faults
    assert not again.faults


def test_the_leaderboard_is_sorted_and_unfolded(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "many.html"
    path.write_text(Report(MakeStudy(rows=4)(40)).html(), "utf-8")
    opened = Opened(browser, path)
    page = opened.page
    shown = "document.querySelectorAll('.board tbody tr:not([hidden])').length"
    assert 25 <= page.evaluate(shown) <= 26
    page.click(".boardbox .more")
    assert page.evaluate(shown) == 40
    page.click(".sort:has-text('cost')")
    column = page.evaluate(
        "[...document.querySelectorAll('.board tbody tr')].map((row) => "
        "+[...row.cells].at(-3).dataset.v)"
    )
    assert column == sorted(column, reverse=True)
    assert page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_both_widths_in_both_modes(
    browser: Any, hostile: Path, width: int, scheme: str
) -> None:
    size = {"width": width, "height": 900}
    opened = Opened(browser, hostile, viewport=size, color_scheme=scheme)
    opened.drawn()
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 24, 28)"}[scheme]
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll > table:not(.board)')]"
        ".filter((one) => one.offsetWidth > one.parentElement.clientWidth + 1).length"
    )
    assert cut == 0 or width > 760
    wide = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.chart svg')].map((one) => "
        "one.getBoundingClientRect().right))"
    )
    assert wide <= width
