"""Plain text, marked-up text, source code, JSON, notebooks and XML."""

from __future__ import annotations

import json

import pytest
from one_file import read, refused, warned

from ragwright.core import EmptySourceError, MalformedSourceError, UnsupportedSourceError
from ragwright.flow import FetchReply
from ragwright.ingest import WebReader

RST = """======
Manual
======

Intro
-----

Text

.. note
   ----

Oil
~~~

Last
----
"""
RST_HEADS = [("Manual", 1), ("Intro", 2), ("Oil", 3), ("Last", 2)]
ADOC = "= Manual\n:toc:\n\n== Oil ==\n\n----\n== no\n----\n\n=== ISO 46\n"
ORG = "#+TITLE: Manual\n* TODO [#A] Oil  :ops:\n#+BEGIN_SRC c\n* no\n#+END_SRC\n** ISO 46\n"
SECTION = [("Oil", 2), ("ISO 46", 3)]


@pytest.mark.parametrize(
    ("name", "text", "heads"),
    [
        ("a.rst", RST, RST_HEADS),
        ("a.adoc", ADOC, [("Manual", 1), ("Oil", 2), ("ISO 46", 3)]),
        ("a.org", ORG, [("Oil", 1), ("ISO 46", 2)]),
        ("a.wiki", "== Oil ==\ntext\n=== ISO 46 ===\n", SECTION),
        ("a.tex", "\\section{Oil}\ntext\n\\subsection*{ISO 46}\n", SECTION),
        ("a.txt", "Oil\n===\n\n= no =\n", []),
        ("a.json", '{"a": 1}', []),
        ("a.js", "<html>no page</html>", []),
        ("a.py", "def f(x):\n\treturn x  # ok\n", []),
        ("a.py", "a = b-\\\n2-\nc", []),
    ],
    ids=["rst", "adoc", "org", "wiki", "tex", "plain", "json", "js", "code", "hyphens in code"],
)
def test_text_stays_as_it_is_and_its_headings_are_known(
    name: str, text: str, heads: list[tuple[str, int]]
) -> None:
    found = read(name, text)
    assert [(section.title, section.level) for section in found.sections] == heads
    assert found.text == text
    if name == "a.py":
        assert found.metadata["code_language"] == "python"


def test_form_feeds_part_pages_and_broken_words_are_joined() -> None:
    found = read("rfc.txt", "one\n\x0ctwo\n\x0cthree\n")
    pages = [found.text[p.span.start : p.span.end].strip() for p in found.pages]
    assert pages == ["one", "two", "three"]
    assert found.pages[-1].span.end == len(found.text)
    text = "The infor-\nmation on AB-\n12, a 24-\n  hour watch. In-\nand output,\n- a\n-----\n"
    joined = "The information\non AB-12,\na 24-hour\nwatch. In- and\noutput,\n- a\n-----\n"
    assert read("a.txt", text).text == joined


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson", "a.geojson"])
def test_codes_of_json_become_characters(name: str) -> None:
    value = {"titre": "Pompe à chaleur", "朝": "漏れ\nligne", "s": 'C:\\dir "x" 😀', "p": "a/b"}
    found = read(name, json.dumps(value).replace("/", "\\/"))
    end = "\n" if name in ("a.json", "a.geojson") else " "
    shown = (
        '"titre": "Pompe à chaleur", "朝": "漏れ{}ligne", "s": "C:\\\\dir \\"x\\" 😀", "p": "a/b"'
    )
    assert found.text == "{" + shown.format(end) + "}"


def cell(kind: str, source: str, *outputs: object) -> dict[str, object]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": list(outputs)}


def test_a_notebook_is_its_cells_and_what_they_print() -> None:
    shown = "<style>x</style><table><tr><th>lot</th></tr><tr><td>7</td></tr></table>"
    cells = [
        cell("markdown", "# Größe\n\nThe flow is 12."),
        cell("code", "print(1)", {"data": {"text/plain": "one\ntwo\n"}}),
        cell("code", "f()", {"output_type": "stream", "text": ["three\n", "four\n"]}),
        cell("code", "df", {"data": {"text/html": shown, "text/plain": ["lot"]}}),
        cell("code", "plot()", {"data": {"image/png": "iVBORw0KGgo" * 40}}),
        cell("code", "1/0", {"ename": "ZeroDivisionError", "evalue": "\x1b[31mzero\x1b[0m"}),
        cell("raw", "A raw note."),
    ]
    metadata = {"language_info": {"name": "python"}}
    found = read("a.ipynb", json.dumps({"cells": cells, "metadata": metadata}))
    printed = ("```python\nprint(1)\n```", "one\ntwo", "three\nfour", "| 7 |", "A raw note.")
    for words in ("# Größe", *printed, "ZeroDivisionError: zero"):
        assert words in found.text
    for noise in ("cell_type", "iVBOR", "<table", "\\u00f6", "[31m"):
        assert noise not in found.text
    assert [section.title for section in found.sections] == ["Größe"]
    assert warned(found) == ["1 image"]


PLAY = """<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="a.xsl"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0" xml:lang="fr">
<teiHeader><fileDesc><titleStmt><title>La Pièce</title><title type="sub">Farce</title>
<author>Une Autrice</author></titleStmt></fileDesc>
<profileDesc><creation><date when="1668"/></creation></profileDesc></teiHeader>
<text><body><head>La Pièce, <lb/><hi>farce</hi></head>
<div1><head>Acte I</head><div2><head>Scène I</head><stage>Anne, Luc</stage>
<sp><speaker>Anne</speaker><p><s>Bonjour.</s><s>Ça va ?</s></p></sp>
<sp><speaker>Luc</speaker><stage>à part.</stage><l>Un vers <stage>(bas)</stage> court,</l>
<l>un autre.</l></sp></div2>
<div2><head>Scène II</head><p>Une faute
ici<note>non</note>.</p><list><item>un</item><item>deux</item></list>
<table><row><cell>a</cell><cell>b</cell></row><row><cell>1</cell><cell>2</cell></row></table>
</div2></div1></body></text></TEI>"""


@pytest.mark.slow
def test_a_play_keeps_its_acts_speakers_and_stage_directions() -> None:
    found = read("play.xml", PLAY)
    assert (found.title, found.language, found.media_type) == ("La Pièce", "fr", "application/xml")
    heads = [("La Pièce, farce", 1), ("Acte I", 2), ("Scène I", 3), ("Scène II", 3)]
    assert [(s.title, s.level) for s in found.sections] == heads
    assert "(Anne, Luc)\n\nAnne:\nBonjour. Ça va ?\n\nLuc:\n(à part.)" in found.text
    assert "Un vers (bas) court,\nun autre." in found.text
    assert "Une faute ici (non) ." in found.text
    assert "- un\n- deux\n\n| a | b |\n| - | - |\n| 1 | 2 |" in found.text
    assert "<" not in found.text
    for section in found.sections:
        assert found.text[section.span.start :].lstrip("# ").startswith(section.title)
    for name in ("play.tei", "play", "play.txt"):
        assert read(name, PLAY).title == "La Pièce", "known by its beginning or its name"
    assert read("a.py", PLAY).metadata["code_language"] == "python"
    headers = {"content-type": "application/xml; charset=utf-8"}
    sent = FetchReply("", 200, headers, PLAY[PLAY.index("<TEI") :].encode())
    (one,) = WebReader().read("https://example.org/play", lambda url: sent)
    assert getattr(one, "title", "") == "La Pièce"


BOOKS = (
    "<books><book><title>{}</title><price>{}</price></book><book><title>Two</title></book></books>"
)
LETTERS = "<letters><letter><from>Ann</from><p>Dear <b>all</b>, hello.</p></letter></letters>"
DOCTYPE = '<!DOCTYPE a SYSTEM "a.dtd"><a><p>caf&eacute; &amp; th&eacute;</p></a>'
PROSE = "<?xml version='1.0'?><doc><p>The element &lt;b&gt; is bold.</p></doc>"
RAISED = "<?xml version='1.0'?><article><p>10<sup>6</sup> cells of H<sub>2</sub>O</p></article>"
ROWS = '<posts><row Title="How to boil an egg"/></posts>'
DEEP = "<a>" * 20_000 + "<p>deep inside</p>" + "</a>" * 20_000
DAMAGED = "<a><p>the words are here</a>"


TOPIC = '<topic id="t"><title>Bleed</title><p>Screw &quot;A&quot; &amp; B</p></topic>\n'
FEED = "<?xml version='1.0'?><rss><item><title>News</title>{}</item></rss>"
ITEMS = {
    "<description>&lt;p&gt;Lot &lt;b&gt;77&lt;/b&gt; is back.&lt;/p&gt;</description>": "",
    "<description>Lot &lt;b&gt;77&lt;/b&gt; is back.</description>": "",
    '<content type="html"><![CDATA[<p>Lot <em>77</em> is back.</p>]]></content>': "",
    "<note><![CDATA[<ul><li>Lot 77 is back.</li></ul>]]></note>": "- ",
}


@pytest.mark.parametrize(
    ("text", "shown", "note"),
    [
        (BOOKS.format("One", 5), "One\n5\n\nTwo", ""),
        (LETTERS, "Ann\n\nDear all, hello.", ""),
        (DOCTYPE, "café & thé", ""),
        (PROSE, "The element <b> is bold.", ""),
        (RAISED, "10⁶ cells of H₂O", ""),
        pytest.param(DEEP, "deep inside", "", id="deep"),
        (DAMAGED, DAMAGED, "damaged"),
        (ROWS, ROWS, "plain text"),
        *[(FEED.format(item), f"# News\n\n{mark}Lot 77 is back.", "")
          for item, mark in ITEMS.items()],
    ],
)  # fmt: skip
def test_xml_becomes_text(text: str, shown: str, note: str) -> None:
    found = read("a.xml", text)
    assert (found.text, found.media_type) == (shown, "text/plain" if note else "application/xml")
    assert note in str(found.metadata.get("note", ""))
    assert ("note" in found.metadata) == bool(note)


@pytest.mark.parametrize(
    "start",
    ["", "<!DOCTYPE topic>\n", '<!DOCTYPE topic PUBLIC "-//O//DTD T//EN" "t.dtd">', "<!--x-->"],
)
def test_xml_without_a_declaration_is_xml_under_any_name(start: str) -> None:
    for name in ("a.xml", "a.nxml", "a.dita", "a.zz"):
        assert read(name, start + TOPIC).text.endswith('Screw "A" & B')


def test_xhtml_is_a_page() -> None:
    page = (
        '<?xml version="1.0"?><?xml-stylesheet href="a.css"?>'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head>'
        "<body><h1>Head</h1><p>words</p></body></html>"
    )
    for name in ("a.xml", "a.xhtml", "a"):
        found = read(name, page)
        assert (found.title, found.media_type) == ("T", "text/html")
        assert found.text == "# Head\n\nwords"


ENTITIES = "<!DOCTYPE a [<!ENTITY b {}>]><a>&b;</a>"


@pytest.mark.parametrize(
    ("kind", "name", "text", "said"),
    [
        (MalformedSourceError, "a.xml", ENTITIES.format('"xx"'), "entities"),
        (MalformedSourceError, "a.xml", ENTITIES.format('SYSTEM "file:///etc/passwd"'), "entities"),
        (EmptySourceError, "a.xml", " \n", "no text"),
        (UnsupportedSourceError, "a.svg",
         '<svg xmlns="http://www.w3.org/2000/svg"><text>inlet</text></svg>', "SVG drawing"),
        *[(MalformedSourceError, "b.ipynb", data, "Jupyter")
          for data in ('{"worksheets": [{"cells": []}], "nbformat": 3}', "{", "[]")],
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    kind: type[MalformedSourceError], name: str, text: str, said: str
) -> None:
    assert said in refused(kind, name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "![x](data:image/png;base64,{0})"),
        ("a.txt", "url(data:font/woff2;charset=utf-8;base64,{0}) end"),
        ("a.csv", 'a,b\n1,"data:image/png;base64,{0}"\n'),
        ("a.json", '{{"icon": "data:image/png;base64,{0}"}}'),
        ("a.xml", "<doc><p>icon data:image/svg+xml;utf8,{0}</p></doc>"),
        ("a.eml", "Subject: x\n\nSee data:image/png;base64,{0} here\n"),
        ("a.txt", "data:image/png;base64,{0}\n{0}\nQUJD=="),
    ],
)
def test_a_file_in_a_data_address_is_left_out_and_counted(name: str, text: str) -> None:
    found = read(name, text.format("iVBORw0KGgoAAAANSUhEUgAA" * 90))
    assert "iVBOR" not in found.text
    assert "data:" in found.text
    assert warned(found) == ["1 file in data"]
    short = "data:image/png;base64,iVBORw0KGgo="
    assert short in read("b.txt", f"An example: {short}").text
