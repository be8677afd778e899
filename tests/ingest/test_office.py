"""Office files: what a page shows is what is stored, and one bad part loses only itself."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping

import made_files as make
import pytest

from ragwright.core import MalformedSourceError, SourceError
from ragwright.ingest import Extract, SourceOptions, extract_bytes

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    f'xmlns:r="{OFFICE}"'
)


def read(name: str, data: bytes) -> Extract:
    return extract_bytes(name, data, SourceOptions())


def warnings(extract: Extract) -> list[str]:
    return [fault.what for fault in extract.faults]


def word(body: str, **parts: str) -> bytes:
    """A Word file: its body, and parts by kind: ``header``, ``comments``, ``chart`` ..."""
    relations = "".join(
        f'<Relationship Id="{kind}" Type="{OFFICE}/{kind}" Target="{kind}.xml"/>' for kind in parts
    )
    return make.archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="a" '
            f'Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
            f'{relations}<Relationship Id="gone" Type="{OFFICE}/image" Target="../NULL"/>'
            "</Relationships>",
            **{f"word/{kind}.xml": text for kind, text in parts.items()},
        }
    )


def run(text: str, place: str = "") -> str:
    align = f'<w:rPr><w:vertAlign w:val="{place}script"/></w:rPr>' if place else ""
    return f'<w:r>{align}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


CHART = (
    f"<c:chartSpace {WORD}><c:chart><c:title><a:t>Flow</a:t></c:title><c:plotArea>"
    "<c:bar3DChart>{series}</c:bar3DChart><c:valAx><c:title><a:t>l/s</a:t></c:title></c:valAx>"
    "</c:plotArea></c:chart></c:chartSpace>"
)


def series(name: str, labels: str, values: Mapping[int, str], code: str = "General") -> str:
    points = "".join(f'<c:pt idx="{at}"><c:v>{v}</c:v></c:pt>' for at, v in values.items())
    return (
        f"<c:ser><c:tx><c:v>{name}</c:v></c:tx><c:cat>{labels}</c:cat><c:val><c:numRef>"
        f"<c:numCache><c:formatCode>{code}</c:formatCode>{points}</c:numCache></c:numRef></c:val>"
        "</c:ser>"
    )


def test_raised_and_lowered_text_is_told_from_the_rest() -> None:
    body = paragraph(
        run("10"), run("−", "super"), run("6", "super"), run(" m"), run("2", "super"), run(" CO"),
        run("2", "sub"), run(" e"), run("kt", "super"), run(" v"), run("max", "sub"), run(" 21"),
        run("st", "super"), run(" pressure"), run("3", "super"), run("."),
    )  # fmt: skip
    text = read("a.docx", word(body)).text
    assert text == "10⁻⁶ m² CO₂ e^kt v_max 21st pressure ³."


def test_equations_are_latex() -> None:
    body = paragraph(
        run("So "),
        "<m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:rad><m:deg/><m:e><m:r>"
        "<m:t>b+1</m:t></m:r></m:e></m:rad></m:den></m:f><m:sSub><m:e><m:r><m:t>x</m:t></m:r></m:e>"
        "<m:sub><m:r><m:t>12</m:t></m:r></m:sub></m:sSub></m:oMath>",
    )
    assert read("a.docx", word(body)).text == r"So $\frac{a}{\sqrt{b+1}}x_{12}$"


def test_what_lies_beside_the_body_of_a_word_file_is_read_or_counted() -> None:
    body = (
        paragraph(run("Opens at 6 bar."), '<w:r><w:commentReference w:id="4"/></w:r>')
        + paragraph('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', run(" Guard fitted"))
        + paragraph("<w:r><w:rPr><w:vanish/></w:rPr><w:t>draft</w:t></w:r>", run("Seen."))
        + paragraph('<w:r><w:drawing><a:blip r:embed="gone"/></w:drawing></w:r>')
        + '<w:altChunk r:id="gone"/>'
        + '<w:sectPr><w:headerReference r:id="header"/><w:footerReference r:id="footer"/>'
        + "</w:sectPr>"
    )
    extract = read(
        "a.docx",
        word(
            body,
            header=f"<w:hdr {WORD}>{paragraph(run('Document QM-1'))}</w:hdr>",
            footer=f"<w:ftr {WORD}>{paragraph(run('Page 3 of 7'))}</w:ftr>",
            comments=f'<w:comments {WORD}><w:comment w:id="4" w:author="Ann">'
            f"{paragraph(run('Now 8 bar'))}</w:comment></w:comments>",
        ),
    )
    assert extract.text == (
        "Opens at 6 bar.\n\nComment (Ann): Now 8 bar\n\n☑ Guard fitted\n\nSeen.\n\n"
        "Header: Document QM-1"
    )
    assert [line.split(":")[0] for line in warnings(extract)] == [
        "1 hidden text", "1 image", "1 imported part (altChunk)",
    ]  # fmt: skip


def test_a_chart_keeps_its_digits_dates_and_outer_categories() -> None:
    levels = (
        '<c:multiLvlStrRef><c:multiLvlStrCache><c:lvl><c:pt idx="0"><c:v>Lyon</c:v></c:pt>'
        '<c:pt idx="1"><c:v>Nice</c:v></c:pt></c:lvl><c:lvl><c:pt idx="0"><c:v>France</c:v></c:pt>'
        "</c:lvl></c:multiLvlStrCache></c:multiLvlStrRef>"
    )
    days = (
        "<c:numRef><c:numCache><c:formatCode>d/m/yyyy</c:formatCode>"
        '<c:pt idx="0"><c:v>46023</c:v></c:pt></c:numCache></c:numRef>'
    )
    made = series("Flow", levels, {0: "1234567.25", 1: "#N/A"})
    made += series("Share", levels, {0: "0.12345"}, "0%") + series("Day", days, {0: "7"})
    body = paragraph('<w:r><w:drawing><c:chart r:id="chart"/></w:drawing></w:r>')
    text = read("a.docx", word(body, chart=CHART.format(series=made))).text
    assert "| France | Lyon | 1234567.25 | 12.345% |" in text
    assert "| France | Nice | #N/A |  |" in text
    assert "| 2026-01-01 | 7 |" in text
    assert "Axes: l/s" in text


NUMBERS = ("1234567.891", "0.000012", "1234567890123456", "-0.5", "007", "1.10", "12,345.60")


def presentation(text: str) -> bytes:
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = f"Value {text}"
    data = CategoryChartData()
    data.categories = [text]
    data.add_series("s", [1234567.891])
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 4_000_000, 4_000_000, data)
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a.docx", lambda n: word(paragraph(run(n)))),
        ("a.xlsx", lambda n: make.xlsx({"S": [["x", n]]})),
        ("a.pptx", presentation),
        ("a.odt", lambda n: make.odt(f"<text:p>{n}</text:p>")),
        ("a.html", lambda n: f"<p>{n}</p><table><tr><td>x<td>{n}</table>".encode()),
        ("a.csv", lambda n: f'a;b\n"{n}";x\n'.encode()),
        ("a.md", lambda n: f"x {n}".encode()),
        ("a.pdf", lambda n: make.pdf([make.lines(f"Value {n} here")])),
    ],
)
def test_no_number_changes(name: str, made: Callable[[str], bytes]) -> None:
    for number in NUMBERS:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", read(name, made(number)).text)


@pytest.mark.slow
def test_one_bad_part_loses_only_itself() -> None:
    data = presentation("Q1")
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    chart = next(name for name in parts if "charts/chart" in name)
    core = parts["docProps/core.xml"]
    parts[chart] = parts[chart][:200]
    parts["docProps/core.xml"] = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\1", core)
    del parts["docProps/thumbnail.jpeg"]
    extract = read("a.pptx", make.archive(parts))
    assert extract.text == "# Value Q1"
    assert warnings(extract) == [
        "1 damaged part: left out",
        "1 chart: left out: its part is missing",
    ]

    damaged = read("a.docx", word(paragraph(run("Body.")), styles="<w:styles", numbering=""))
    assert damaged.text == "Body."
    assert warnings(damaged) == ["2 damaged parts: left out"]


def test_strict_open_xml_is_read() -> None:
    data = word(paragraph(run("10"), run("3", "super")))
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    strict = re.compile(rb"http://schemas\.openxmlformats\.org/(w\w+|office\w+)/2006/(\w+)")
    moved = {
        name: strict.sub(rb"http://purl.oclc.org/ooxml/\1/\2", part) for name, part in parts.items()
    }
    assert moved != parts
    assert read("a.docx", make.archive(moved)).text == "10³"


def test_a_word_file_without_a_body_is_damaged() -> None:
    with pytest.raises(MalformedSourceError, match=r"word/document\.xml"):
        read("a.docx", make.archive({"word/document.xml": "<w:document"}))


def test_slides_of_open_document_are_pages() -> None:
    slide = (
        '<draw:page draw:name="One"><draw:frame presentation:class="title"><draw:text-box>'
        "<text:p>Plan</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box>"
        "<text:p>Opens at six.</text:p></draw:text-box></draw:frame>"
        "<draw:frame><draw:image/></draw:frame></draw:page>"
    )
    extract = read("a.odp", make.odt(slide, kind="presentation"))
    assert extract.text == "# Plan\n\nOpens at six."
    assert [page.label for page in extract.pages] == ["One"]
    assert warnings(extract)[0].startswith("1 image: left out")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("WordDocument",), "old Word document"),
        (("PowerPoint Document",), "old PowerPoint file"),
        (("__properties_version1.0",), "Outlook message"),
        (("EncryptedPackage",), "password"),
        (("Contents",), "old Office file"),
    ],
)
def test_an_old_file_is_named_by_its_streams_and_not_by_its_words(
    names: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SourceError) as caught:
        read("a.doc", make.ole("Title", *names, text="Workbook Book Title WordDocument"))
    assert said in str(caught.value)
    if "old Word" in said:
        assert "kreuzberg" in str(caught.value)
