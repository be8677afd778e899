"""Markdown of documents in reports and on pages: read as a person expects, never as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragwright.report import formatting

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **bold** word\nand `x**2**`", "a <b>bold</b> word\nand <code>x**2**</code>"),
        ("## Heading\ntext\n\nmore", "<b>Heading</b>\ntext\n\nmore"),
        ("see [the `page`](a_(b).md) [1]", "see the `page` [1]"),
        ("[x](javascript:alert(1)) ![alt](i.png)", "x alt"),
        ("<b>&amp;</b> 2 * 3 ** 4", "&lt;b&gt;&amp;amp;&lt;/b&gt; 2 * 3 ** 4"),
        ("```c\nint **a; // [x](y)\n```\nend", "<pre><code>int **a; // [x](y)</code></pre>end"),
        (
            "| key | mean |\n|---|--:|\n| `a` | x\\|y |",
            "<table><tbody><tr><th>key</th><th>mean</th></tr>"
            "<tr><td><code>a</code></td><td>x|y</td></tr></tbody></table>",
        ),
        ("| a | b |", "<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>"),
    ],
)
def test_what_is_shown(shown: Callable[[str], str], text: str, html: str) -> None:
    assert shown(text) == html


def test_hostile_texts_take_no_time(shown: Callable[[str], str]) -> None:
    for piece in ("[", "**", "`", "| ", "](", "|-", "#", "![a]((", "- |"):
        text = piece * 9000
        assert shown(f"{text}\n{text}\nend")
