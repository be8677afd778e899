"""Spreadsheets: tables stay whole, and cells are stored as the sheet shows them."""

from __future__ import annotations

import io
from pathlib import Path

import made_files as make
import pytest
from one_file import read, warned


def table(head: str, *rows: str) -> str:
    """A table in Markdown, from its lines without the outer bars."""
    rule = " | ".join("-" for _ in head.split("|"))
    return "\n".join(f"| {row} |" for row in (head, rule, *rows))


TWO = [["a", "b", "", "c", "d"], ["x", 1, "", "y", 2], ["z", 3, "", "w", 4]]
MODELS = [["Model", "Price"], ["", ""], ["K-1", 99], ["", ""], ["K-2", 149], ["K-3", 199]]


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        (
            [["EUR m", "", 2024, "", 2023], ["Cost", "", 300, "", 280]],
            [table("EUR m | 2024 | 2023", "Cost | 300 | 280")],
        ),
        (MODELS, [table("Model | Price", "K-1 | 99", "K-2 | 149", "K-3 | 199")]),
        (
            [["Name", "Town"], ["", ""], ["Ann", "Ulm"], ["Bob", "Bern"]],
            [table("Name | Town", "Ann | Ulm", "Bob | Bern")],
        ),
        (
            [["a", "b"], [1, 2], ["", ""], ["c", "d"], [3, 4]],
            [table("a | b", "1 | 2"), table("c | d", "3 | 4")],
        ),
        (TWO, [table("a | b", "x | 1", "z | 3"), table("c | d", "y | 2", "w | 4")]),
        ([["Prices 2026"], [""], ["a", "b"], [1, 2]], ["Prices 2026", table("a | b", "1 | 2")]),
        ([["a", "b", "", "x"], [1, 2.5, "", "y"]], [table("a | b | x", "1 | 2.5 | y")]),
    ],
)
def test_an_empty_line_parts_tables_only_if_each_has_its_own_header(
    rows: list[list[str | float]], tables: list[str]
) -> None:
    found = read("a.xlsx", make.xlsx({"S": rows, "Rest": [["only"]]}))
    assert found.text == "\n\n".join(["# S", *tables, "# Rest", "only"])
    assert [page.label for page in found.pages] == ["S", "Rest"]


SHOWN: list[tuple[float, str | int, str]] = [
    (0.075, "0.0%", "7.5%"), (-0.035, "0.0%;[Red]0.0%", "-3.5%"), (123, "00000", "00123"),
    (5551234567, "(000) 000-0000", "555 123-4567"), (123456, "000-000", "123-456"),
    (1.104166666666667, "[h]:mm", "26:30"), (46096, "[$-407]d. mmmm yyyy", "2026-03-15"),
    (46086.60416666666, "dd/mm/yy hh:mm", "2026-03-05 14:30"),
    (46082, "mmm yyyy", "2026-03"), (0.5, "h:mm AM/PM", "12:00"), (0.0123, "mm:ss", "17:43"),
    (1999.5, "#,##0.00 [$€-407]", "1999.50 €"), (-1500, "#,##0;(#,##0)", "-1500"),
    (1234.5, '_-* #,##0.00\\ "€"_-', "1234.50 €"), (0, '0.0;-0.0;"none"', "none"),
    (0, '0;-0;"-"??', "-"), (1.5e6, '0.0,,"M"', "1.5M"), (1234567, "# ##0", "1234567"),
    (1234567890123450, "General", "1234567890123450"), (1.23e15, "0.00E+00", "1230000000000000"),
    (0.1 + 0.2, "General", "0.3"), (12.5, "# ?/?", "12.5"), (5.25, "0.0#", "5.25"),
    (12, 'General" kg"', "12 kg"), (1e-7, "General", "0.0000001"),
    # numbers of built-in formats
    (0.0345, 9, "3%"), (0.0345, 10, "3.45%"), (46096, 14, "2026-03-15"), (46096, 30, "2026-03-15"),
    (46096, 58, "2026-03-15"), (1.104166666666667, 46, "26:30:00"), (1234.5, 44, "$1234.50"),
]  # fmt: skip


@pytest.mark.slow
def test_what_lies_on_a_sheet_is_stored_as_it_is_shown_or_counted(tmp_path: Path) -> None:
    import xlsxwriter

    picture = tmp_path / "p.png"
    picture.write_bytes(make.png())
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out)
    sheet = book.add_worksheet("S")
    sheet.write_row(0, 0, ["Part", "Net", "Gross"])
    sheet.write_row(1, 0, ["Seal", 100])
    sheet.write_formula(1, 2, "=B2*1.2")
    sheet.write_formula(2, 2, "=NA()", None, "#N/A")
    sheet.write_comment("B2", "From the 2026 list")
    sheet.insert_textbox("F2", "Prices without freight")
    sheet.insert_image("F9", str(picture))
    sheet.write_rich_string(3, 0, "m", book.add_format({"font_script": 1}), "3", "/h")
    chart = book.add_chart({"type": "pie"})
    chart.add_series({"values": "=S!$B$2:$B$2", "name": "Net"})
    book.add_chartsheet("Chart").set_chart(chart)
    numbers = book.add_worksheet("N")
    for row, (value, code, _) in enumerate(SHOWN):
        numbers.write(row, 0, f"n{row}")
        numbers.write_number(row, 1, value, book.add_format({"num_format": code}))
    book.close()
    extract = read("a.xlsx", out.getvalue())
    assert "| Seal | 100 | =B2*1.2 |" in extract.text
    assert "|  |  | #N/A |" in extract.text
    assert "| m³/h |" in extract.text
    assert "Comment on B2 (Seal): From the 2026 list" in extract.text
    assert "Prices without freight" in extract.text
    assert [page.label for page in extract.pages] == ["S", "Chart", "N"]
    assert "# Chart\n\n|  | Net |\n| - | - |\n|  | 100 |" in extract.text
    assert warned(extract) == ["1 formula", "1 image"]
    assert [line for line in extract.text.splitlines() if line.startswith("| n")] == [
        f"| n{row} | {shown} |" for row, (_, _, shown) in enumerate(SHOWN)
    ]


def test_two_cells_in_far_corners_are_not_a_table_of_billions() -> None:
    data = make.xlsx({"S": [["a"]]}, far={"XFD1048576": "b"})
    assert read("a.xlsx", data).text == "# S\n\na\n\nb"


def test_an_open_document_sheet_keeps_values_whatever_its_language() -> None:
    def cell(kind: str, shown: str, more: str = "") -> str:
        start = f'<table:table-cell office:value-type="{kind}"{more}>'
        return f"{start}<text:p>{shown}</text:p></table:table-cell>"

    cells = cell("percentage", "7,5 %", ' office:value="0.075"')
    cells += cell("currency", "1.234,50 €", ' office:currency="EUR" office:value="1234.5"')
    cells += cell("float", "00123", ' office:value="123"')
    cells += cell("date", "15.03.26", ' office:date-value="2026-03-15"') + cell("time", "26:30")
    row = f'<table:table-row table:number-rows-repeated="2">{cells}</table:table-row>'
    body = f'<table:table table:name="S">{row}</table:table>'
    line = "7.5% | 1234.5 EUR | 00123 | 2026-03-15 | 26:30"
    extract = read("a.ods", make.odt(body, kind="spreadsheet"))
    assert extract.text == "# S\n\n" + table(line, line)
