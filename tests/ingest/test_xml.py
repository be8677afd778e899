"""XML as text: plays, records, and files that are not well-formed XML."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.data_sets import DATA
from one_file import read as read_file

from ragwright.core import EmptySourceError, MalformedSourceError, UnsupportedSourceError
from ragwright.ingest import Extract, Fetched, SourceOptions, WebReader, extract_bytes

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


def read(name: str, text: str, options: SourceOptions | None = None) -> Extract:
    return extract_bytes(name, text.encode(), options or SourceOptions())


@pytest.mark.slow
def test_a_play_keeps_its_acts_speakers_and_stage_directions() -> None:
    found = read("play.xml", PLAY)
    assert (found.title, found.language) == ("La Pièce", "fr")
    assert found.media_type == "application/xml"
    assert [(s.title, s.level) for s in found.sections] == [
        ("La Pièce, farce", 1), ("Acte I", 2), ("Scène I", 3), ("Scène II", 3),
    ]  # fmt: skip
    assert "(Anne, Luc)\n\nAnne:\nBonjour. Ça va ?\n\nLuc:\n(à part.)" in found.text
    assert "Un vers (bas) court,\nun autre." in found.text
    assert "Une faute ici (non) ." in found.text
    assert "- un\n- deux\n\n| a | b |\n| - | - |\n| 1 | 2 |" in found.text
    assert "<" not in found.text
    for section in found.sections:
        assert found.text[section.span.start :].lstrip("# ").startswith(section.title)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["play.xml", "play.tei", "play", "play.txt"])
def test_xml_is_known_by_its_beginning_or_its_name(name: str) -> None:
    assert read(name, PLAY).title == "La Pièce"


def test_xml_without_a_declaration_is_known_by_its_name_alone() -> None:
    bare = "<letters><letter><from>Ann</from><p>Dear <b>all</b>, hello.</p></letter></letters>"
    assert read("a.xml", bare).text == "Ann\n\nDear all, hello."
    assert read("a.py", PLAY).metadata["code_language"] == "python"


def test_records_are_paragraphs_and_their_fields_lines() -> None:
    record = "<book><title>{0}</title><price>{1}</price></book>"
    found = read("a.xml", f"<books>{record.format('One', 5)}{record.format('Two', 6)}</books>")
    assert found.text == "One\n5\n\nTwo\n6"
    assert found.media_type == "application/xml"


def test_other_encodings_are_read() -> None:
    text = '<?xml version="1.0" encoding="{0}"?><a><p>Größe und Übermut</p></a>'
    for encoding in ("iso-8859-1", "windows-1252", "utf-16", "utf-8"):
        data = text.format(encoding).encode(encoding)
        assert extract_bytes("a.xml", data, SourceOptions()).text == "Größe und Übermut"
    wrong = text.format("utf-8").encode("cp1252")
    chosen = SourceOptions(encoding="cp1252")
    assert extract_bytes("a.xml", wrong, chosen).text == "Größe und Übermut"


def test_entities_of_html_are_known_where_a_file_names_an_outside_dtd() -> None:
    found = read("a.xml", '<!DOCTYPE a SYSTEM "a.dtd"><a><p>caf&eacute; &amp; th&eacute;</p></a>')
    assert found.text == "café & thé"


def test_declared_entities_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "xxxx"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
    outside = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
    for text in (bomb, outside):
        with pytest.raises(MalformedSourceError, match="entities"):
            read("a.xml", text)


def test_a_damaged_file_is_read_as_plain_text_with_a_note() -> None:
    found = read("a.xml", "<a><p>the words are here</a>")
    assert found.text == "<a><p>the words are here</a>"
    assert "damaged" in str(found.metadata["note"])
    with pytest.raises(EmptySourceError):
        read("a.xml", " \n")


def test_text_in_attributes_alone_is_not_lost() -> None:
    found = read("posts.xml", '<posts><row Title="How to boil an egg"/></posts>')
    assert "How to boil an egg" in found.text
    assert "plain text" in str(found.metadata["note"])


def test_nesting_without_end_costs_the_structure_only() -> None:
    depth = 20_000
    found = read("a.xml", "<a>" * depth + "<p>deep inside</p>" + "</a>" * depth)
    assert found.text == "deep inside"


def test_a_drawing_is_refused() -> None:
    with pytest.raises(UnsupportedSourceError, match="SVG drawing"):
        read("a.svg", '<svg xmlns="http://www.w3.org/2000/svg"><text>inlet</text></svg>')


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


def test_xml_from_the_web_is_read_alike() -> None:
    def fetch(url: str) -> Fetched:
        return Fetched(url, "application/xml; charset=utf-8", PLAY[PLAY.index("<TEI") :].encode())

    (found,) = WebReader().read("https://example.org/play", fetch)
    assert getattr(found, "title", "") == "La Pièce"


def test_json_stays_as_it_is_and_says_so() -> None:
    found = read("a.json", '{"a": 1}')
    assert (found.text, found.media_type) == ('{"a": 1}', "application/json")


@pytest.mark.slow
@pytest.mark.needs_data
def test_no_word_of_a_real_play_is_lost() -> None:
    paths = sorted((DATA / "moliere").glob("*.xml"))
    for path in paths:
        found = extract_bytes(path.name, path.read_bytes(), SourceOptions())
        root = ElementTree.parse(path).getroot()
        text = root.find("{http://www.tei-c.org/ns/1.0}text")
        assert text is not None
        words = Counter(re.findall(r"\w+", " ".join(text.itertext())))
        kept = Counter(re.findall(r"\w+", found.text))
        assert (words - kept).total() <= 2  # a word with a tag in its middle is one word
        assert found.language == "fr"
        assert found.title
        assert len(found.sections) > 20


@pytest.mark.parametrize("name", ["a.xml", "a.nxml", "a.dita", "a.zz"])
@pytest.mark.parametrize(
    "start",
    ["", "<!DOCTYPE topic>\n", '<!DOCTYPE topic PUBLIC "-//O//DTD T//EN" "t.dtd">', "<!--x-->"],
)
def test_xml_without_a_declaration_is_xml(tmp_path: Path, name: str, start: str) -> None:
    page = f'{start}<topic id="t"><title>Bleed</title><p>Screw &quot;A&quot; &amp; B</p></topic>\n'
    assert read_file(tmp_path, name, page)[0].text.endswith('Screw "A" & B')


@pytest.mark.parametrize(
    "item",
    [
        "<description>&lt;p&gt;Lot &lt;b&gt;77&lt;/b&gt; is back.&lt;/p&gt;</description>",
        "<description>Lot &lt;b&gt;77&lt;/b&gt; is back.</description>",
        '<content type="html"><![CDATA[<p>Lot <em>77</em> is back.</p>]]></content>',
        "<note><![CDATA[<ul><li>Lot 77 is back.</li></ul>]]></note>",
    ],
)
def test_html_in_a_feed_is_read_as_a_page(tmp_path: Path, item: str) -> None:
    page = f"<?xml version='1.0'?><rss><item><title>News</title>{item}</item></rss>"
    text = read_file(tmp_path, "a.xml", page)[0].text
    assert "Lot 77 is back." in text
    assert "<" not in text


def test_marks_of_markup_in_prose_stay(tmp_path: Path) -> None:
    page = "<?xml version='1.0'?><doc><p>The element &lt;b&gt; is bold.</p></doc>"
    assert read_file(tmp_path, "a.xml", page)[0].text == "The element <b> is bold."
