"""What a page shows is its text: raised text, what a click opens, layout, the main part."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_file import read

from ragwright.ingest import SourceOptions

MAIN = SourceOptions(main_text=True)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>3 × 10<sup>8</sup> m/s</p>", "3 × 10⁸ m/s"),
        ("<p>10<sup>-5</sup> and 10<sup>&minus;5</sup></p>", "10⁻⁵ and 10⁻⁵"),
        ("<p>2<sup>a+b</sup>, V<sub>max</sub></p>", "2^(a+b), V_max"),
        ("<p>an area of 7 m<sup>2</sup>, CO<sub>2</sub></p>", "an area of 7 m², CO₂"),
        ("<p>the valve<sup>3</sup> opens.<sup>4</sup></p>", "the valve ³ opens. ⁴"),
        ("<p>as shown<sup><a href='#n'>12</a></sup>, and</p>", "as shown ¹², and"),
        ("<p>known<sup class=reference><a>[7]</a></sup>.</p>", "known [7]."),
        ("<p>known<sup>[7]</sup></p>", "known [7]"),
        ("<p>the 1<sup>st</sup> and XX<sup>e</sup></p>", "the 1st and XXe"),
        ("<table><tr><th>a<td>b<tr><td>x<sup>2</sup><td>1</table>", "| x² | 1 |"),
    ],
)
def test_raised_and_lowered_text_is_not_joined_to_numbers(
    tmp_path: Path, page: str, shown: str
) -> None:
    document, _ = read(tmp_path, "a.html", page)
    assert shown in document.text


def test_raised_text_of_xml(tmp_path: Path) -> None:
    page = "<article><p>10<sup>6</sup> cells of H<sub>2</sub>O</p></article>"
    document, _ = read(tmp_path, "a.xml", f"<?xml version='1.0'?>{page}")
    assert document.text == "10⁶ cells of H₂O"


@pytest.mark.parametrize(
    "hidden",
    [
        "<div role=tabpanel hidden>{}</div>",
        "<div class='collapse' style='display: none'>{}</div>",
        "<section style='visibility:hidden' aria-hidden=true>{}</section>",
        "<details><summary>More</summary>{}</details>",
        "<dl><dt>q</dt><dd style='display:none'>{}</dd></dl>",
    ],
)
@pytest.mark.parametrize("options", [None, MAIN])
def test_hidden_text_is_text(tmp_path: Path, hidden: str, options: SourceOptions | None) -> None:
    page = f"<main><h1>Rules</h1><p>Visible words.</p>{hidden.format('<p>Bring a key.</p>')}</main>"
    document, warnings = read(tmp_path, "a.html", page, options)
    assert "Bring a key." in document.text
    assert not warnings


def test_a_hidden_notice_and_a_second_copy_are_none(tmp_path: Path) -> None:
    page = """<h1>Rules</h1><p>Bring a key.</p><div hidden><p>Bring a key.</p></div>
    <div id="cookie-banner" style="display:none">We store things.</div>
    <div style="display:none"><p>This site uses cookies. All about cookies.</p></div>"""
    document, _ = read(tmp_path, "a.html", page)
    assert document.text == "# Rules\n\nBring a key."


def test_a_button_that_opens_something_is_its_heading(tmp_path: Path) -> None:
    page = """<h2><button aria-expanded="false" aria-controls="x">How long?</button></h2>
    <div id=x hidden>Two years.</div><button>Copy</button>"""
    document, _ = read(tmp_path, "a.html", page)
    assert document.text.split() == ["##", "How", "long?", "Two", "years."]
    assert [section.title for section in document.sections] == ["How long?"]


def test_frames_are_counted_in_one_warning(tmp_path: Path) -> None:
    page = "<p>See the film.</p><iframe src=x>no frames</iframe><object data=y></object>"
    document, (warning,) = read(tmp_path, "a.html", page)
    assert document.text == "See the film."
    assert "2 frames" in str(warning.error)


@pytest.mark.parametrize(
    "table",
    [
        "<tr><td>Home<td><p>{0}</p><p>{1}</p>",
        "<tr><td>Home<td>{0}<br><br>{1}",
        "<tr><td colspan=2>Logo<tr><td>Nav<td><div><div>{0}</div><div>{1}</div></div>",
        "<tr><td><p>{0}</p><p>{1}</p><td><ul><li>one</ul><p>two</p>",
    ],
)
def test_a_table_that_arranges_a_page_is_no_table(tmp_path: Path, table: str) -> None:
    first, second = "Gears mesh with other gears.", "Axles turn; oil them weekly."
    page = f"<table width=100%>{table.format(first, second)}</table>"
    lines = [line.strip() for line in read(tmp_path, "a.html", page)[0].text.splitlines()]
    assert first in lines
    assert second in lines


@pytest.mark.parametrize(
    "table",
    [
        "<tr><td>M8<td>25 Nm<tr><td>M10<td>49 Nm",
        "<tr><th>Bolt<th>Note<tr><td>M8<td><p>25 Nm</p><p>greased</p><ul><li>x</ul>",
        "<tr><td>M8<td><p>25 Nm</p><tr><td>M10<td><p>49 Nm</p>",
    ],
)
def test_a_table_of_data_stays_one(tmp_path: Path, table: str) -> None:
    text = read(tmp_path, "a.html", f"<p>Torque</p><table>{table}</table>")[0].text
    assert any(line.startswith("| M8 | 25 Nm") for line in text.splitlines())


@pytest.mark.parametrize(
    "table",
    [
        "<tr><td class=gutter><pre>1\n2</pre><td><pre>if x:\n    y()</pre>",
        "<tr><td class=blob-num>1<td><code>if x:</code><tr><td class=blob-num>2<td>"
        "<code>    y()</code>",
        "<tr><td>1\n2<td><pre>if x:\n    y()</pre>",
    ],
)
def test_numbered_code_is_code_without_numbers(tmp_path: Path, table: str) -> None:
    text = read(tmp_path, "a.html", f"<p>Call:</p><table>{table}</table>")[0].text
    assert text == "Call:\n\n```\nif x:\n    y()\n```"


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ("<aside><h2>Moved</h2><p>The concert is on 14 July.</p></aside>", ""),
        ("<article><p>One.</p></article><article><p>Drops Python 3.8.</p></article>", ""),
        ("<h1>Ask</h1><p>Short.</p><div class=comments><p>Use key 7.</p></div>", ""),
        ("<main><h1>Gate</h1><p>Opens at nine on all days.</p></main>", "<footer>Imprint</footer>"),
        ("<p>Bring a key.</p>", f"<div class=cookie-consent><p>{'We track. ' * 30}</p></div>"),
        ("<p>Bring a key.</p>", "<nav><a>A</a> <a>B</a></nav>"),
        ("<p>Bring a key.</p>", "<aside><a>Abc</a> <a>Bcd</a> <a>Cde</a></aside>"),
    ],
)
def test_the_main_part_keeps_what_authors_write(tmp_path: Path, kept: str, left: str) -> None:
    text = read(tmp_path, "a.html", f"<body>{left}{kept}{left}</body>", MAIN)[0].text
    words = read(tmp_path, "b.html", f"<body>{kept}</body>")[0].text.split()
    assert text.split() == words


@pytest.mark.parametrize("main", ["main", "article"])
@pytest.mark.parametrize(
    "beside",
    ["<aside><h3>Note</h3><p>Wear gloves.</p></aside>", "<div id=comments>Use key 7.</div>"],
)
def test_asides_and_comments_beside_the_main_part_are_kept(
    tmp_path: Path, main: str, beside: str
) -> None:
    page = f"<p>Teaser</p><{main}><h1>Gate</h1><p>{'Opens at nine. ' * 20}</p></{main}>{beside}"
    text = read(tmp_path, "a.html", page, MAIN)[0].text
    assert "Wear gloves." in text or "Use key 7." in text
    assert "Teaser" not in text


def test_a_summary_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    document, _ = read(tmp_path, "a.html", "<details><summary>How long?</summary>A year.</details>")
    assert document.text.split("\n\n") == ["How long?", "A year."]
