"""Open XML packages: charts, equations, and one bad part loses only itself."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

import pytest
from made_files import NUMBERS, WORD, archive, members_of, paragraph, run, word
from one_file import read, warned

CHART = (
    f"<c:chartSpace {WORD}><c:chart><c:title><a:t>Flow</a:t></c:title><c:plotArea>"
    "<c:bar3DChart>{series}</c:bar3DChart><c:valAx><c:title><a:t>l/s</a:t></c:title></c:valAx>"
    "</c:plotArea></c:chart></c:chartSpace>"
)
POINT = '<c:pt idx="{0}"><c:v>{1}</c:v></c:pt>'
LEVELS = (
    "<c:multiLvlStrRef><c:multiLvlStrCache>"
    f"<c:lvl>{POINT.format(0, 'Lyon')}{POINT.format(1, 'Nice')}</c:lvl>"
    f"<c:lvl>{POINT.format(0, 'France')}</c:lvl></c:multiLvlStrCache></c:multiLvlStrRef>"
)


def numbers(values: Mapping[int, str], code: str = "General") -> str:
    points = "".join(POINT.format(at, value) for at, value in values.items())
    cache = f"<c:numCache><c:formatCode>{code}</c:formatCode>{points}</c:numCache>"
    return f"<c:numRef>{cache}</c:numRef>"


def series(name: str, labels: str, values: str) -> str:
    head = f"<c:tx><c:v>{name}</c:v></c:tx><c:cat>{labels}</c:cat>"
    return f"<c:ser>{head}<c:val>{values}</c:val></c:ser>"


def test_a_chart_keeps_its_digits_dates_and_outer_categories() -> None:
    made = series("Flow", LEVELS, numbers({0: "1234567.25", 1: "#N/A"}))
    made += series("Share", LEVELS, numbers({0: "0.12345"}, "0%"))
    made += series("Day", numbers({0: "46023"}, "d/m/yyyy"), numbers({0: "7"}))
    body = paragraph('<w:r><w:drawing><c:chart r:id="chart"/></w:drawing></w:r>')
    text = read("a.docx", word(body, chart=CHART.format(series=made))).text
    assert "| France | Lyon | 1234567.25 | 12.345% |" in text
    assert "| France | Nice | #N/A |  |" in text
    assert "| 2026-01-01 | 7 |" in text
    assert "Axes: l/s" in text


def test_equations_are_latex() -> None:
    root = "<m:rad><m:deg/><m:e><m:r><m:t>b+1</m:t></m:r></m:e></m:rad>"
    under = f"<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den>{root}</m:den></m:f>"
    low = "<m:sub><m:r><m:t>12</m:t></m:r></m:sub>"
    named = f"<m:sSub><m:e><m:r><m:t>x</m:t></m:r></m:e>{low}</m:sSub>"
    body = paragraph(run("So "), f"<m:oMath>{under}{named}</m:oMath>")
    assert read("a.docx", word(body)).text == r"So $\frac{a}{\sqrt{b+1}}x_{12}$"


def presentation(text: str) -> bytes:
    """A slide whose title holds a text, and a chart of it."""
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show, data, out = pptx.Presentation(), CategoryChartData(), io.BytesIO()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = f"Value {text}"
    data.categories = [text]
    data.add_series("s", [1234567.891])
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 4_000_000, 4_000_000, data)
    show.save(out)
    return out.getvalue()


@pytest.mark.slow
def test_one_bad_part_loses_only_itself() -> None:
    for number in NUMBERS:
        shown = read("a.pptx", presentation(number)).text
        assert shown.startswith(f"# Value {number}\n\n")
        assert f"| {number} | 1234567.891 |" in shown
    parts = members_of(presentation("1.10"))
    chart = next(name for name in parts if "charts/chart" in name)
    core = parts["docProps/core.xml"]
    parts[chart] = parts[chart][:200]
    parts["docProps/core.xml"] = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\1", core)
    del parts["docProps/thumbnail.jpeg"]
    extract = read("a.pptx", archive(parts))
    assert extract.text == "# Value 1.10"
    assert [fault.what for fault in extract.faults] == [
        "1 damaged part: left out",
        "1 chart: left out: its part is missing",
    ]
    damaged = read("a.docx", word(paragraph(run("Body.")), styles="<w:styles", numbering=""))
    assert damaged.text == "Body."
    assert warned(damaged) == ["2 damaged parts"]


def test_strict_open_xml_is_read() -> None:
    parts = members_of(word(paragraph(run("10"), run("3", "super"))))
    strict = re.compile(rb"http://schemas\.openxmlformats\.org/(w\w+|office\w+)/2006/(\w+)")
    moved = {
        name: strict.sub(rb"http://purl.oclc.org/ooxml/\1/\2", part) for name, part in parts.items()
    }
    assert moved != parts
    assert read("a.docx", archive(moved)).text == "10³"
