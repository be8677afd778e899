"""PDF: pages put right, tables, running lines, headings, raised text, values of forms."""

from __future__ import annotations

from collections.abc import Sequence

import made_files as make
import pytest
from made_files import lines

from ragwright.ingest import Extract, ScanProgress, SourceOptions, extract_bytes

pytestmark = pytest.mark.slow

LONG = "words that fill the whole width of a line of running text"
NEVER = SourceOptions(ocr="never")


def shown(x: float, y: float, text: str, size: int = 12) -> str:
    return f"BT /F {size} Tf {x} {y} Td ({text}) Tj ET\n"


def table(top: int, *rows: Sequence[str], high: int = 24) -> str:
    return "".join(
        shown(x, top - high * n, cell)
        for n, row in enumerate(rows)
        for x, cell in zip((50, 150, 300), row, strict=True)
    )


def column(x: int, word: str) -> str:
    return "".join(shown(x, 700 - 15 * n, f"{word} {n} and more words") for n in range(6))


def read(*pages: str) -> Extract:
    return extract_bytes("a.pdf", make.pdf(pages), NEVER)


HEAD = ("Code", "Meaning", "Days")


def test_pages_tables_and_metadata() -> None:
    title, before = lines("Big Title", size=30), lines("Before the table", top=600)
    ruled = make.ruled_table([["Code", "Meaning"], ["APP_w304", "door open"]], 560)
    info = "<</Title(Car Manual)/Author(ACME)/CreationDate(D:20240131120000+02'00')>>"
    pages = [title + before + lines("After the table", top=480) + ruled, lines("Second page")]
    extract = extract_bytes("a.pdf", make.pdf(pages, info=info), NEVER)
    assert (extract.title, extract.metadata["author"]) == ("Car Manual", "ACME")
    assert extract.created == "2024-01-31T12:00:00+02:00"
    first, second = (extract.text[p.span.start : p.span.end] for p in extract.pages)
    assert second == "Second page"
    assert first.strip() == (
        "Big Title\n\nBefore the table\n\n| Code | Meaning |\n| - | - |\n| APP_w304 | door open |"
        "\n\nAfter the table"
    )
    assert [s.title for s in extract.sections] == ["Big Title"]


def test_tables_without_rules_are_tables_whose_heads_are_repeated() -> None:
    page = shown(50, 740, LONG) + table(700, HEAD, ("E1", "Oil is low", "3"))
    page += table(652, ("E2", "Belt is worn", "10")) + shown(150, 638, "or missing")
    rows = "| Code | Meaning | Days |\n| - | - | - |\n| E1 | Oil is low | 3 |\n"
    more = "| E2 | Belt is worn or missing | 10 |"
    assert read(page + shown(50, 600, LONG)).text == f"{LONG}\n\n{rows}{more}\n\n{LONG}"
    pages = table(500, HEAD, ("E1", "Oil low", "3")), table(500, *[("E2", "Worn", "4")] * 2)
    assert "| Code | Meaning | Days |\n| - | - | - |\n| E2 | Worn | 4 |" in read(*pages).text


def test_words_of_stretched_lines_and_of_lists_are_no_table() -> None:
    stretched = "".join(
        shown(x + 3 * n, 700 - 15 * n, word)
        for n, words in enumerate(("some plain words", "that were drawn", "wide apart here"))
        for x, word in zip((50, 130, 210), words.split(), strict=True)
    )
    places = [(500 - 15 * n, n) for n in range(1, 5)]
    listed = "".join(shown(50, y, f"{n}.") + shown(80, y, "a thing") for y, n in places)
    assert "|" not in read(stretched + listed).text


def test_columns_that_were_drawn_crosswise_are_read_in_order() -> None:
    left, right = column(50, "left"), column(320, "right")
    for drawn in (left + right, right + left):
        text = read(shown(50, 740, LONG) + drawn).text
        places = [text.index(word) for word in ("fill", "left 0", "left 5", "right 0", "right 5")]
        assert places == sorted(places)


def test_running_lines_watermarks_and_page_numbers_are_metadata_not_text() -> None:
    head = shown(50, 780, "Handbook of pumps")
    extract = read(
        *(head + lines(f"Text {n}: {LONG}") + shown(280, 20, f"Page {n} of 3") for n in (1, 2, 3))
    )
    assert "Handbook" not in extract.text
    assert "of 3" not in extract.text
    assert extract.text.count(LONG) == 3
    assert extract.metadata["running_lines"] == ("Handbook of pumps",)
    assert len(extract.pages) == 3
    mark = "BT /F 60 Tf .5 .866 -.866 .5 200 300 Tm (DRAFT) Tj ET\n"
    extract = read(*(mark + lines(f"Rule {n} says that visitors wait.") for n in range(3)))
    assert "DRAFT" not in extract.text
    assert (extract.metadata["running_lines"], extract.sections) == (("DRAFT",), ())
    label = "BT /F 12 Tf .7071 .7071 -.7071 .7071 200 300 Tm (per month) Tj ET\n"
    assert "per month" in read(label + lines("A chart of costs.")).text
    extract = read(*(shown(50, 780, f"{word} opens") + lines(LONG) for word in ("One", "Two")))
    assert "One opens" in extract.text
    assert "Two opens" in extract.text
    assert "running_lines" not in extract.metadata


def test_headings_rank_by_size_and_captions_stand_apart() -> None:
    page = shown(50, 740, "The handbook", 24) + lines(LONG, LONG, top=700)
    page += shown(50, 640, "The pump", 18) + lines(LONG, LONG, top=610)
    sections = [(s.title, s.level) for s in read(page).sections]
    assert sections == [("The handbook", 1), ("The pump", 2)]
    page = lines(LONG, LONG, "ends here.", top=700) + shown(50, 635, "Figure 3: The pump")
    page += shown(50, 600, "Text goes on below it.")
    assert "\n\nFigure 3: The pump\n\n" in read(page).text


def test_raised_and_lowered_digits_are_told_from_the_rest() -> None:
    pieces = (
        ("Up to 10", 12, 0), ("-3", 7, 5), (" m", 12, 0), ("2", 7, 5), (" of CO", 12, 0),
        ("2", 7, -2), (" under pressure", 12, 0), ("4", 7, 5), (", 120 of 350.", 12, 0),
    )  # fmt: skip
    parts = " ".join(f"/F {size} Tf {rise} Ts ({text}) Tj" for text, size, rise in pieces)
    text = read(f"BT 50 700 Td {parts} ET\n").text
    assert text == "Up to 10⁻³ m² of CO₂ under pressure ⁴, 120 of 350."


def test_words_cut_at_a_line_end_keep_the_hyphen_that_they_are_written_with() -> None:
    cut = (
        "The consoli-", "dation of the well-", "known X-", "ray unit AB-", "12 with the MTBF-",
        "value of the self-", "less crew, in- and", "output, a 24-", "hour watch, an inter-",
    )  # fmt: skip
    text = " ".join(read(lines(*cut), lines("national unit of ours.")).text.split())
    assert text == (
        "The consolidation of the well-known X-ray unit AB-12 with the MTBF-value of the selfless "
        "crew, in- and output, a 24-hour watch, an international unit of ours."
    )
    assert "pages 3-5 of" in read(lines("See the pages 3-", "5 of the manual.")).text


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("/Subtype/Widget/FT/Tx/T(f1)/V(Hydra GmbH)", "Customer: Hydra GmbH"),
        ("/Subtype/Widget/FT/Ch/T(f1)/V(Bern)/Opt[(Bern)(Ulm)]", "Customer: Bern"),
        ("/Subtype/Widget/FT/Btn/T(f1)/V/Yes/AS/Yes/AP<</N<</Yes 5 0 R>>>>", "Customer: ☒"),
        ("/Subtype/Text/Contents(Changed to 48 Nm)/T(Ann)", "Comment (Ann): Changed to 48 Nm"),
    ],
)
def test_values_of_forms_and_notes_are_read(kind: str, line: str) -> None:
    found = extract_bytes("a.pdf", make.annotated_pdf(kind), NEVER)
    assert found.text.splitlines()[-1] == line


def test_progress_names_the_page_and_a_damaged_page_is_counted() -> None:
    seen: list[object] = []

    class Seen(ScanProgress):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            seen.extend([value] * (name == "current"))

    data = make.pdf([lines(f"Page {n}.") for n in range(3)])
    extract_bytes("a.pdf", data, NEVER, Seen())
    assert {"a.pdf", "a.pdf, page 1 of 3", "a.pdf, page 3 of 3"} <= set(seen)
    broken = data.replace(b"6 0 obj\n<</Type/Page/", b"6 0 obj\n<</Type/Pagx/")
    extract = extract_bytes("a.pdf", broken, NEVER)
    assert "Page 0." in extract.text
    assert [fault.what for fault in extract.faults] in ([], ["1 damaged page: left out"])
