"""HTML to Markdown text: tables, code, hidden parts, and the main part of a page."""

from __future__ import annotations

import pytest

from ragwright.ingest import SourceOptions, extract_bytes, parse_html

TEXT = "This paragraph says something that a reader came for, in whole sentences. " * 4


def whole(html: str) -> str:
    return parse_html(html, main_only=False).text


def test_merged_cells_stand_in_every_place_they_cover() -> None:
    html = """<table><caption>Sizes</caption>
    <tr><th rowspan=2>name</th><th colspan=2>size</th></tr>
    <tr><th>w</th><th>h</th></tr><tr><td>a|b</td><td>1</td><td>2<br>3</td></tr></table>after"""
    assert whole(html) == (
        "Sizes\n\n| name | size | size |\n| - | - | - |\n| name | w | h |\n"
        "| a\\|b | 1 | 2 3 |\n\nafter"
    )


def test_lists_and_tables_inside_a_cell_stay_on_its_line() -> None:
    html = (
        "<table><tr><td>x</td><td><ul><li>one<li>two</ul></td></tr><tr><td>y</td><td>"
        "<table><tr><td>in</td><td>side</td></tr></table></td></tr></table>"
    )
    assert whole(html) == "| x | - one - two |\n| - | - |\n| y | in side |"


def test_tables_that_only_arrange_the_page_are_opened() -> None:
    html = f"<table><tr><td><h1>Title</h1><p>{TEXT}</p></td><td>side</td></tr></table>"
    text = whole(html)
    assert text.startswith("# Title\n\nThis paragraph")
    assert "|" not in text


def test_codes_and_code_come_through_untouched() -> None:
    html = "<p>Error APP_w304 and a*b*c [x]</p><pre>if x:\n    y_1 = 2 * z</pre>"
    text = whole(html)
    assert "Error APP_w304 and a*b*c [x]" in text
    assert "if x:\n    y_1 = 2 * z" in text


def test_scripts_and_styles_are_left_out() -> None:
    html = (
        "<p>seen</p><script>var a</script><style>b</style><p hidden>c</p>"
        '<p style="display:none">d <b>e</b></p><noscript>f</noscript><img src="x" alt="a duck">'
    )
    assert " ".join(whole(html).split()) == "seen c d e a duck"


def test_links_and_emphasis_become_plain_words() -> None:
    assert whole('<p>see <a href="https://x.org">the <b>site</b></a> H<sub>2</sub>O</p>') == (
        "see the site H₂O"
    )


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
    text = parse_html(PAGE, main_only=True).text
    for kept in ("# The headline", "came for", "another page", "- first point", "| speed | fast |"):
        assert kept in text
    for gone in ("About us", "Menu entry", "cookies", "Related one", "Buy now", "Imprint"):
        assert gone not in text
    assert "Menu entry" in whole(PAGE)


def test_main_and_article_are_taken_at_their_word() -> None:
    html = f"<body><div>Teaser of something else</div><main><p>{TEXT}</p></main><p>Legal</p></body>"
    assert parse_html(html, main_only=True).text == TEXT.strip()


def test_a_page_named_after_a_menu_is_not_emptied() -> None:
    html = f'<body><div class="menu-page"><p>{TEXT}</p></div></body>'
    assert "came for" in parse_html(html, main_only=True).text


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
def test_the_declared_encoding_is_used() -> None:
    data = '<html><meta charset="iso-8859-2"><p>Łódź</p>'.encode("iso-8859-2")
    assert extract_bytes("a.html", data, SourceOptions()).text == "Łódź"


@pytest.mark.slow
def test_saved_pages_are_reduced_to_their_main_text_where_asked() -> None:
    page = (
        b"<html><body><nav><a href='/'>Home</a> <a href='/shop'>Shop</a></nav><main><h1>Pumps</h1>"
        b"<p>A pump moves water from one place to another.</p></main></body></html>"
    )
    whole = extract_bytes("page.html", page, SourceOptions()).text
    main = extract_bytes("page.html", page, SourceOptions(main_text=True)).text
    assert "Shop" in whole
    assert main == "# Pumps\n\nA pump moves water from one place to another."
    only_links = b"<html><body><nav><a href='/'>Home</a></nav></body></html>"
    assert extract_bytes("page.html", only_links, SourceOptions(main_text=True)).text == "Home"
