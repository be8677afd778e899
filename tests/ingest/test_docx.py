"""Word and PowerPoint files: what a page shows is what is stored."""

from __future__ import annotations

import io

import pytest
from made_files import paragraph, run, word, word_part
from one_file import read, warned


def test_raised_and_lowered_text_is_told_from_the_rest() -> None:
    body = paragraph(
        run("10"), run("−", "super"), run("6", "super"), run(" m"), run("2", "super"), run(" CO"),
        run("2", "sub"), run(" e"), run("kt", "super"), run(" v"), run("max", "sub"), run(" 21"),
        run("st", "super"), run(" pressure"), run("3", "super"), run("."),
    )  # fmt: skip
    assert read("a.docx", word(body)).text == "10⁻⁶ m² CO₂ e^kt v_max 21st pressure ³."


def test_what_lies_beside_the_body_of_a_word_file_is_read_or_counted() -> None:
    body = (
        paragraph(run("Opens at 6 bar."), '<w:r><w:commentReference w:id="4"/></w:r>')
        + paragraph('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', run(" Guard fitted"))
        + paragraph("<w:r><w:rPr><w:vanish/></w:rPr><w:t>draft</w:t></w:r>", run("Seen."))
        + paragraph('<w:r><w:drawing><a:blip r:embed="gone"/></w:drawing></w:r>')
        + '<w:altChunk r:id="gone"/><w:sectPr><w:headerReference r:id="header"/>'
        + '<w:footerReference r:id="footer"/></w:sectPr>'
    )
    parts = {"header": word_part("hdr", "Document QM-1"), "footer": word_part("ftr", "Page 3 of 7")}
    extract = read("a.docx", word(body, **parts, comments=word_part("comments", "Now 8 bar")))
    assert extract.text == (
        "Opens at 6 bar.\n\nComment (Ann): Now 8 bar\n\n☑ Guard fitted\n\nSeen.\n\n"
        "Header: Document QM-1"
    )
    assert warned(extract) == ["1 hidden text", "1 image", "1 imported part (altChunk)"]


def test_word_lists_tables_and_headings() -> None:
    import docx

    document, out = docx.Document(), io.BytesIO()
    document.core_properties.title = "Plan"
    document.add_heading("First", 1)
    for item in ("one", "two"):
        document.add_paragraph(item, style="List Number")
    table = document.add_table(2, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).text = "a|b"
    document.add_heading("Deeper", 2)
    document.add_paragraph("end")
    document.save(out)
    extract = read("a.docx", out.getvalue())
    assert extract.title == "Plan"
    assert [(s.title, s.level) for s in extract.sections] == [("First", 1), ("Deeper", 2)]
    assert "1. one\n2. two" in extract.text
    assert "| wide | wide |  |\n| - | - | - |\n|  |  | a\\|b |" in extract.text


@pytest.mark.slow
def test_slides_are_pages_with_lists_tables_and_notes() -> None:
    import pptx
    from pptx.util import Inches

    show, out = pptx.Presentation(), io.BytesIO()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Results"
    slide.placeholders[1].text = "good\nbetter"
    shape = slide.shapes.add_table(1, 2, Inches(1), Inches(4), Inches(4), Inches(1))
    shape.table.cell(0, 0).text, shape.table.cell(0, 1).text = "x", "y"
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    show.save(out)
    extract = read("a.pptx", out.getvalue())
    assert [p.label for p in extract.pages] == ["Results"]
    assert extract.text.startswith("# Results\n\n- good\n- better\n\n| x | y |")
    assert "Notes: say it slowly" in extract.text
