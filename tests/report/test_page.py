"""Pages: rows packed without loss, Markdown never read as HTML, and reports in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from study_subject import HOSTILE, MEASURES, MakeStudy, entry, result, unpack_block

from ragwright.core import Row, Score
from ragwright.experiment import RowResult
from ragwright.report import STATES, PackedRows, Report, formatting, pack_rows

# -- packed rows, read as the page's script does -------------------------------------------------


class Reader:
    def __init__(self, packed: PackedRows) -> None:
        self.blocks = [unpack_block(block) for block in packed.blocks]
        self.entries = {one["id"]: one for one in packed.index["entries"]}
        self.questions: list[Any] = list(self.blocks[packed.index["rows"]])

    def details(self, name: str) -> list[Any]:
        return [row for *_, block in self.entries[name]["rows"] for row in self.blocks[block]]

    def scores(self, name: str) -> Any:
        return self.blocks[self.entries[name]["scores"]]


@pytest.mark.parametrize("text", ["", HOSTILE], ids=["plain", "hostile"])
def test_everything_of_a_row_comes_back(text: str) -> None:
    subject = MakeStudy(text=text)(3)
    packed = pack_rows(subject.entries, MEASURES, ["T000", "T001", "T002"])
    reader = Reader(packed)

    def told(one: str) -> str:
        return one.encode("utf-8", "replace").decode()

    for one in subject.entries:
        kept: list[RowResult] = list(one.read())
        for row, found in zip(kept, reader.details(one.id), strict=True):
            answer, about, hits, prompt, made, said = found
            assert row.row is not None
            assert row.made is not None
            assert answer == told(row.row.response or "")
            assert about["topic"] == told(text or "numbers")
            assert [hit[1] for hit in hits] == [told(p) for p in row.row.retrieved_contexts]
            assert [hit[0] for hit in hits] == ["docs/a.md", "docs/b.md"]
            assert [*map(tuple, prompt)] == [(role, told(words)) for role, words in row.made.prompt]
            assert made["cost"] == 0.002
            assert said["0"][1] == told(row.scores[0].detail)
        columns = reader.scores(one.id)["m"]
        assert columns[0][0] == [row.scores[0].value for row in kept]
        assert columns[1][1] == "a" * len(kept)
    assert [row[0] for row in reader.questions] == [f"q{n}" for n in range(6)]


def test_rows_are_packed_in_groups_and_without_texts_where_nobody_asks_for_them() -> None:
    def told(at: int) -> RowResult:
        kept = result(at, (0.5, 3.0))
        return replace(kept, scores=tuple(replace(s, detail="so " * 20_000) for s in kept.scores))

    entries = [entry(name, [told(at) for at in range(12)]) for name in "ab"]
    reader = Reader(pack_rows(entries, MEASURES, "a"))
    assert [len(reader.scores(name)["r"]) for name in "ab"] == [12, 12]
    assert [len(reader.details(name)) for name in "ab"] == [12, 0]
    groups = [row[:2] for row in reader.entries["a"]["rows"]]
    assert groups == [[0, 4], [4, 4], [8, 4]]


def test_states_rankings_and_rows_that_failed() -> None:
    failing = tuple(Score(name, "errored", reason="Boom: gone") for name in MEASURES)
    rows = [result(0, (0.25, None)), RowResult("q1", (), failing)]
    entries = [entry("a", [result(1, (1.0, 2.0))]), entry("b", rows)]
    reader = Reader(pack_rows(entries, MEASURES, "ab"))
    states = [STATES["abcdef".index(c)] for c in reader.scores("b")["m"][1][1]]
    assert states == ["judge_invalid", "errored"]
    assert reader.scores("b")["m"][0][0] == [0.25, None]
    failed = reader.details("b")[1]
    assert (failed[0], failed[5]["0"][0]) == (None, "Boom: gone")
    # The row that failed shares the line of the question that the other entry knows.
    assert reader.questions[reader.scores("b")["r"][1]][1].startswith("What is said about")
    only = RowResult("q9", ("docs/x.md", "docs/y.md"), (Score("nDCG@10", "scored", 0.5),))
    reader = Reader(pack_rows([entry("a", [only])], ["nDCG@10"], "a"))
    assert reader.questions == [["q9", "", "", ""]]
    assert reader.details("a")[0][2] == [["docs/x.md"], ["docs/y.md"]]
    # Two questions under one id stay two.
    score = (Score("TokenF1", "scored", 1.0),)
    asked = [RowResult("q", (), score, Row("q", text, "yes")) for text in ("first?", "second?")]
    pair = [entry(name, [row]) for name, row in zip("ab", asked, strict=True)]
    reader = Reader(pack_rows(pair, ["TokenF1"], "ab"))
    assert reader.scores("a")["r"] != reader.scores("b")["r"]


# -- Markdown of documents -------------------------------------------------------------------------

SHOWN = """text => {
    const box = document.createElement("div");
    box.append(formatted.block(text));
    return box.innerHTML;
}"""


@pytest.fixture(scope="module")
def shown(browser: Any) -> Iterator[Callable[[str], str]]:
    page = browser.new_page()
    page.add_script_tag(content=formatting())
    yield lambda text: str(page.evaluate(SHOWN, text))
    page.close()


ROW = "<tr><td>a</td><td>b</td></tr>"
TABLE = "<table><tbody><tr><th>key</th><th>mean</th></tr>"
TABLE += "<tr><td><code>a</code></td><td>x|y</td></tr></tbody></table>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **bold** word\nand `x**2**`", "a <b>bold</b> word\nand <code>x**2**</code>"),
        ("## Heading\ntext\n\nmore", "<b>Heading</b>\ntext\n\nmore"),
        ("see [the `page`](a_(b).md) [1]", "see the `page` [1]"),
        ("[x](javascript:alert(1)) ![alt](i.png)", "x alt"),
        ("<b>&amp;</b> 2 * 3 ** 4", "&lt;b&gt;&amp;amp;&lt;/b&gt; 2 * 3 ** 4"),
        ("```c\nint **a; // [x](y)\n```\nend", "<pre><code>int **a; // [x](y)</code></pre>end"),
        ("| key | mean |\n|---|--:|\n| `a` | x\\|y |", TABLE),
        ("a *slanted* word, 2*3*4", "a <em>slanted</em> word, 2*3*4"),
        ("- one\n  more\n- **two**\n\nend", "<ul><li>one more</li><li><b>two</b></li></ul>end"),
        ("3. three\n4) four", '<ol><li value="3">three</li><li value="4">four</li></ol>'),
        (f"{'word ' * 15}\nlonger {'x' * 20}\nend", f"{'word ' * 15} longer {'x' * 20}\nend"),
        ("| a | b |", f"<table><tbody>{ROW}</tbody></table>"),
    ],
)
def test_what_is_shown(shown: Callable[[str], str], text: str, html: str) -> None:
    assert shown(text) == html


@pytest.mark.slow
def test_hostile_texts_take_no_time(shown: Callable[[str], str]) -> None:
    for piece in ("[", "**", "`", "| ", "](", "|-", "#", "![a]((", "- |"):
        text = piece * 9000
        assert shown(f"{text}\n{text}\nend")


# -- reports in a browser: nothing hostile runs, nothing is fetched, every row opens ---------------


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_rows_side_by_side_and_links_to_them(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.html"
    path.write_text(Report(MakeStudy(rows=70)(8)).html(), "utf-8")
    opened = Opened(browser, path)
    page = opened.page
    count = "document.querySelector('#count').textContent"
    assert page.evaluate("document.querySelectorAll('#list .row').length") == 50
    page.click("#more")
    assert page.evaluate("document.querySelectorAll('#list .row').length") == 70
    page.select_option("#pick-with", "T000")
    opened.until(f"{count}.includes('against T000')")
    changes = page.evaluate(
        "[...document.querySelectorAll('#list b')].map((one) => Math.abs(+one.textContent))"
    )
    assert changes
    assert changes == sorted(changes, reverse=True)
    page.select_option("#pick-persona", "marketing")
    opened.until(f"{count}.startsWith('35 of 70')")
    page.fill("#find", "q31 number")
    opened.until(f"{count}.startsWith('1 of 70')")
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


@pytest.mark.slow
def test_the_leaderboard_is_sorted(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "many.html"
    path.write_text(Report(MakeStudy(rows=4)(40)).html(), "utf-8")
    page = Opened(browser, path).page
    assert page.evaluate("document.querySelectorAll('.board tbody tr').length") == 40
    page.click(".sort:has-text('cost')")
    column = page.evaluate(
        "[...document.querySelectorAll('.board tbody tr')].map((row) => "
        "+[...row.cells].at(-2).textContent)"
    )
    assert column == sorted(column, reverse=True)
    assert page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
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


WITHIN = """([before, marked, after]) => {
    const mark = document.createElement("mark"), box = document.createElement("div");
    mark.id = "passage";
    mark.append(marked);
    const text = (data) => document.createTextNode(data);
    box.append(formatted.within([text(before), mark, text(after)]));
    return box.innerHTML;
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "html"),
    [
        (("a ", "b **c**", " d"), 'a <mark id="passage">b </mark><b><mark>c</mark></b> d'),
        (("x\n", "# T\ny", "\nz"), 'x\n<b><mark id="passage">T</mark></b>\n<mark>y</mark>\nz'),
        (
            ("", "```py\nq = 1\n```\n", "end"),
            '<pre><code><mark id="passage">q = 1</mark></code></pre>end',
        ),
        (
            ("", "- a\n- b", ""),
            '<ul><li><mark id="passage">a</mark></li><li><mark>b</mark></li></ul>',
        ),
    ],
)
def test_a_marked_passage_keeps_its_bounds(browser: Any, texts: list[str], html: str) -> None:
    page = browser.new_page()
    page.add_script_tag(content=formatting())
    assert page.evaluate(WITHIN, texts).replace("\n\n", "\n") == html
    page.close()
