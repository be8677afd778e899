"""HTML to text: what a page shows, tables, code, hidden parts, and the main part of a page."""

from __future__ import annotations

import pytest
from one_file import read, warned

from ragwright.ingest import parse_html

TEXT = "This paragraph says something that a reader came for, in whole sentences. " * 4


def whole(html: str) -> str:
    return parse_html(html, main_only=False).text


def main(html: str) -> str:
    return parse_html(html, main_only=True).text


MERGED = """<table><caption>Sizes</caption>
<tr><th rowspan=2>name</th><th colspan=2>size</th></tr>
<tr><th>w</th><th>h</th></tr><tr><td>a|b</td><td>1</td><td>2<br>3</td></tr></table>after"""
SIZES = "Sizes\n\n| name | size | size |\n| - | - | - |\n| name | w | h |\n| a\\|b | 1 | 2 3 |"
NESTED = """<table><tr><td>x</td><td><ul><li>one<li>two</ul></td></tr><tr><td>y</td><td>
<table><tr><td>in</td><td>side</td></tr></table></td></tr></table>"""
UNSEEN = """<p>seen</p><script>var a</script><style>b</style><p hidden>c</p>
<p style="display:none">d <b>e</b></p><noscript>f</noscript><img src="x" alt="a duck">"""
LINKS = '<p>see <a href="https://x.org">the <b>site</b></a> H<sub>2</sub>O</p>'
NOTICES = """<h1>Rules</h1><p>Bring a key.</p><div hidden><p>Bring a key.</p></div>
<div id="cookie-banner" style="display:none">We store things.</div>
<div style="display:none"><p>This site uses cookies. All about cookies.</p></div>"""
FRAMES = "<p>See the film.</p><iframe src=x>no frames</iframe><object data=y></object>"


CODE = "<p>Error APP_w304 and a*b*c [x]</p><pre>if x:\n    y_1 = 2 * z</pre>"
A, B = "Gears mesh with other gears.", "Axles turn; oil them weekly."
LINES = (
    "<tr><td class=blob-num>1<td><code>if x:</code><tr><td class=blob-num>2<td><code>    y()</code>"
)
LOGO = f"<tr><td colspan=2>Logo<tr><td>Nav<td><div><div>{A}</div><div>{B}</div></div>"
LISTED = f"<tr><td><p>{A}</p><p>{B}</p><td><ul><li>one</ul><p>two</p>"
GREASED = "<tr><th>Bolt<th>Note<tr><td>M8<td><p>25 Nm</p><p>greased</p><ul><li>x</ul>"
TORQUE = "| M8 | 25 Nm |\n| - | - |\n| M10 | 49 Nm |"
CALL = "```\nif x:\n    y()\n```"
TABLES = {
    "<tr><td class=gutter><pre>1\n2</pre><td><pre>if x:\n    y()</pre>": CALL,
    LINES: CALL,
    "<tr><td>1\n2<td><pre>if x:\n    y()</pre>": CALL,
    f"<tr><td>Home<td><p>{A}</p><p>{B}</p>": f"Home\n\n{A}\n\n{B}",
    f"<tr><td>Home<td>{A}<br><br>{B}": f"Home\n{A}\n\n{B}",
    LOGO: f"Logo\nNav\n\n{A}\n\n{B}",
    LISTED: f"{A}\n\n{B}\n\n- one\n\ntwo",
    f"<tr><td><h1>{A}</h1><p>{B}</p></td><td>side</td></tr>": f"# {A}\n\n{B}\n\nside",
    "<tr><td>M8<td>25 Nm<tr><td>M10<td>49 Nm": TORQUE,
    "<tr><td>M8<td><p>25 Nm</p><tr><td>M10<td><p>49 Nm</p>": TORQUE,
    GREASED: "| Bolt | Note |\n| - | - |\n| M8 | 25 Nm greased - x |",
    "<tr><th>a<td>b<tr><td>x<sup>2</sup><td>1": "| a | b |\n| - | - |\n| x² | 1 |",
}
"""Of numbered code, of layout, and of data."""


@pytest.mark.parametrize(
    ("html", "text"),
    [
        pytest.param(MERGED, f"{SIZES}\n\nafter", id="merged cells in every place they cover"),
        pytest.param(NESTED, "| x | - one - two |\n| - | - |\n| y | in side |", id="inside a cell"),
        pytest.param(LINKS, "see the site H₂O", id="links and emphasis"),
        pytest.param(UNSEEN, "seen\n\nc\n\nd e\n\na duck", id="scripts and styles"),
        pytest.param(NOTICES, "# Rules\n\nBring a key.", id="hidden notices, second copies"),
        pytest.param(FRAMES, "See the film.", id="frames"),
        (CODE, "Error APP_w304 and a*b*c [x]\n\n```\nif x:\n    y_1 = 2 * z\n```"),
        ("<details><summary>How long?</summary>A year.</details>", "How long?\n\nA year."),
        ("<p>3 × 10<sup>8</sup> m/s</p>", "3 × 10⁸ m/s"),
        ("<p>10<sup>-5</sup> and 10<sup>&minus;5</sup></p>", "10⁻⁵ and 10⁻⁵"),
        ("<p>2<sup>a+b</sup>, V<sub>max</sub></p>", "2^(a+b), V_max"),
        ("<p>an area of 7 m<sup>2</sup>, CO<sub>2</sub></p>", "an area of 7 m², CO₂"),
        ("<p>the valve<sup>3</sup> opens.<sup>4</sup></p>", "the valve ³ opens. ⁴"),
        ("<p>as shown<sup><a href='#n'>12</a></sup>, and</p>", "as shown ¹², and"),
        ("<p>known<sup class=reference><a>[7]</a></sup>.</p>", "known [7]."),
        ("<p>known<sup>[7]</sup></p>", "known [7]"),
        ("<p>the 1<sup>st</sup> and XX<sup>e</sup></p>", "the 1st and XXe"),
        *[
            (f"<p>Text</p><table width=100%>{table}</table>", f"Text\n\n{text}")
            for table, text in TABLES.items()
        ],
    ],
)
def test_a_page_becomes_text(html: str, text: str) -> None:
    assert whole(html) == text


OPENED = {
    "<div role=tabpanel hidden>{}</div>": "",
    "<div class='collapse' style='display: none'>{}</div>": "",
    "<section style='visibility:hidden' aria-hidden=true>{}</section>": "",
    "<details><summary>More</summary>{}</details>": "More\n\n",
    "<dl><dt>q</dt><dd style='display:none'>{}</dd></dl>": "q\n:   ",
}
BUTTON = """<h2><button aria-expanded="false" aria-controls="x">How long?</button></h2>
<div id=x hidden>Two years.</div><button>Copy</button>"""


def test_what_a_click_opens_is_text_its_button_a_heading_and_frames_are_counted() -> None:
    for hidden, before in OPENED.items():
        shown = f"<h1>Rules</h1><p>Seen.</p>{hidden.format('<p>Bring a key.</p>')}"
        for main_only in (True, False):
            found = parse_html(f"<main>{shown}</main>", main_only=main_only)
            assert found.text == f"# Rules\n\nSeen.\n\n{before}Bring a key."
            assert not found.faults
    found = parse_html(BUTTON, main_only=False)
    assert found.text == "## How long?\n\nTwo years."
    assert [section.title for section in found.sections] == ["How long?"]
    assert warned(parse_html(FRAMES, main_only=False)) == ["2 frames"]


def test_sections_title_dates_and_language() -> None:
    html = f"""<html lang="fr-FR"><head><title> The
    Title </title><meta property="article:published_time" content="2024-01-02T03:04:05Z">
    <meta name="author" content="A. Writer"></head><body><h1>One</h1><p>{TEXT}</p><h2>Two</h2>x
    <pre># no heading</pre></body></html>"""
    extract = parse_html(html, main_only=False)
    assert (extract.title, extract.language) == ("The Title", "fr")
    assert extract.created == "2024-01-02T03:04:05+00:00"
    assert extract.metadata["author"] == "A. Writer"
    assert [(s.title, s.level) for s in extract.sections] == [("One", 1), ("Two", 2)]
    for section in extract.sections:
        assert extract.text[section.span.start :].startswith("#" * section.level + " ")


PAGE = f"""<body>
<header class="site"><a href="/">Home</a> <a href="/a">About us</a></header>
<nav><ul><li><a href="/1">Menu entry</a></ul></nav>
<div class="cookie-banner">We use cookies. <button>Accept</button></div>
<div id="content"><header><h1>The headline</h1></header>
<p>{TEXT}</p><p>It links to <a href="/x">another page</a> in passing.</p>
<ul><li>first point with words<li>second point with words</ul>
<div><a href="/r1">Related one</a> <a href="/r2">Related two</a>
<a href="/r3">Related three</a></div>
<table><tr><th>k</th><th>v</th></tr><tr><td>speed</td><td>fast</td></tr></table></div>
<aside>Buy now</aside><footer>Imprint</footer></body>"""


def test_the_main_part_without_furniture() -> None:
    text = main(PAGE)
    for kept in ("# The headline", "came for", "another page", "- first point", "| speed | fast |"):
        assert kept in text
    for gone in ("About us", "Menu entry", "cookies", "Related one", "Buy now", "Imprint"):
        assert gone not in text
    assert "Menu entry" in whole(PAGE)
    teased = f"<div>Teaser of something else</div><main><p>{TEXT}</p></main><p>Legal</p>"
    assert main(f"<body>{teased}</body>") == TEXT.strip(), "main is taken at its word"
    assert "came for" in main(f'<body><div class="menu-page"><p>{TEXT}</p></div></body>')


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
def test_the_main_part_keeps_what_authors_write(kept: str, left: str) -> None:
    text = main(f"<body>{left}{kept}{left}</body>")
    assert text.split() == whole(f"<body>{kept}</body>").split()


@pytest.mark.parametrize("place", ["main", "article"])
def test_asides_and_comments_beside_the_main_part_are_kept(place: str) -> None:
    page = f"<p>Teaser</p><{place}><h1>Gate</h1><p>{'Opens at nine. ' * 20}</p></{place}>"
    aside = main(f"{page}<aside><h3>Note</h3><p>Wear gloves.</p></aside>")
    assert "Wear gloves." in aside
    comments = main(f"{page}<div id=comments>Use key 7.</div>")
    assert "Use key 7." in comments
    assert "Teaser" not in aside + comments


@pytest.mark.slow
@pytest.mark.parametrize("main_only", [True, False])
def test_hostile_nesting_and_spans_end_in_time(main_only: bool) -> None:
    deep = "<div>" * 5000 + "deep words" + "</div>" * 5000
    assert "deep words" in parse_html(deep, main_only=main_only).text
    wide = '<table><tr><td rowspan="99999999" colspan="99999999">wide</td><td>x</td></tr></table>'
    assert "wide" in parse_html(wide, main_only=main_only).text
    many = "<table>" + "<tr><td rowspan=900 colspan=900>x</td></tr>" * 500 + "</table>"
    assert "x" in parse_html(many, main_only=main_only).text
    stretched = "<table><tr>" + "<td>x" * 5000 + "<tr><td>y" * 5000 + "</table>"
    assert len(parse_html(stretched, main_only=main_only).text) < 10 * len(stretched)
    assert parse_html("", main_only=main_only).text == ""


@pytest.mark.slow
def test_a_saved_page_is_decoded_as_it_states_and_reduced_where_asked() -> None:
    page = '<html><meta charset="iso-8859-2"><p>Łódź</p>'.encode("iso-8859-2")
    assert read("a.html", page).text == "Łódź"
    nav = "<html><body><nav><a href='/'>Home</a> <a href='/shop'>Shop</a></nav>"
    saved = f"{nav}<main><h1>Pumps</h1><p>A pump moves water.</p></main></body></html>"
    assert "Shop" in read("page.html", saved).text
    assert read("page.html", saved, main_text=True).text == "# Pumps\n\nA pump moves water."
    assert read("page.html", f"{nav}</body></html>", main_text=True).text == "Home Shop"
