"""Spreadsheets: tables stay whole, and cells are stored as the sheet shows them."""

from __future__ import annotations

import io
from pathlib import Path

import made_files as make
import pytest

from ragwright.ingest import Extract, SourceOptions, extract_bytes


def read(data: bytes) -> Extract:
    return extract_bytes("a.xlsx", data, SourceOptions())


def table(rows: list[list[str | float]]) -> str:
    return read(make.xlsx({"S": rows})).text.removeprefix("# S\n\n")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [["EUR m", "", 2024, "", 2023], ["Cost", "", 300, "", 280]],
            "| EUR m | 2024 | 2023 |\n| - | - | - |\n| Cost | 300 | 280 |",
        ),
        (
            [["Model", "Price"], ["", ""], ["K-1", 99], ["", ""], ["K-2", 149], ["K-3", 199]],
            "| Model | Price |\n| - | - |\n| K-1 | 99 |\n| K-2 | 149 |\n| K-3 | 199 |",
        ),
        (
            [["Name", "Town"], ["", ""], ["Ann", "Ulm"], ["Bob", "Bern"]],
            "| Name | Town |\n| - | - |\n| Ann | Ulm |\n| Bob | Bern |",
        ),
        (
            [["a", "b"], [1, 2], ["", ""], ["c", "d"], [3, 4]],
            "| a | b |\n| - | - |\n| 1 | 2 |\n\n| c | d |\n| - | - |\n| 3 | 4 |",
        ),
        (
            [["a", "b", "", "c", "d"], ["x", 1, "", "y", 2], ["z", 3, "", "w", 4]],
            "| a | b |\n| - | - |\n| x | 1 |\n| z | 3 |\n\n"
            "| c | d |\n| - | - |\n| y | 2 |\n| w | 4 |",
        ),
        (
            [["Prices 2026"], [""], ["a", "b"], [1, 2]],
            "Prices 2026\n\n| a | b |\n| - | - |\n| 1 | 2 |",
        ),
    ],
)
def test_an_empty_line_parts_tables_only_if_each_has_its_own_header(
    rows: list[list[str | float]], text: str
) -> None:
    assert table(rows) == text


SHOWN = [
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
]  # fmt: skip


@pytest.mark.slow
def test_numbers_are_stored_as_their_format_shows_them() -> None:
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out)
    sheet = book.add_worksheet("S")
    for row, (value, code, _) in enumerate(SHOWN):
        sheet.write(row, 0, f"n{row}")
        sheet.write_number(row, 1, value, book.add_format({"num_format": code}))
    book.close()
    lines = read(out.getvalue()).text.splitlines()
    assert [line for line in lines if line.startswith("| n")] == [
        f"| n{row} | {shown} |" for row, (_, _, shown) in enumerate(SHOWN)
    ]


@pytest.mark.slow
def test_what_lies_on_a_sheet_beside_values_is_read_or_counted(tmp_path: Path) -> None:
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
    raised = book.add_format({"font_script": 1})
    sheet.write_rich_string(3, 0, "m", raised, "3", "/h")
    chart = book.add_chart({"type": "pie"})
    chart.add_series({"values": "=S!$B$2:$B$2", "name": "Net"})
    book.add_chartsheet("Chart").set_chart(chart)
    book.close()
    extract = read(out.getvalue())
    assert "| Seal | 100 | =B2*1.2 |" in extract.text
    assert "|  |  | #N/A |" in extract.text
    assert "| m³/h |" in extract.text
    assert "Comment on B2 (Seal): From the 2026 list" in extract.text
    assert "Prices without freight" in extract.text
    assert [page.label for page in extract.pages] == ["S", "Chart"]
    assert "# Chart\n\n|  | Net |\n| - | - |\n|  | 100 |" in extract.text
    assert [fault.what.split(":")[0] for fault in extract.faults] == ["1 formula", "1 image"]


def test_an_open_document_sheet_keeps_values_whatever_its_language() -> None:
    cells = (
        '<table:table-cell office:value-type="percentage" office:value="0.075"><text:p>7,5 %'
        '</text:p></table:table-cell><table:table-cell office:value-type="currency" '
        'office:currency="EUR" office:value="1234.5"><text:p>1.234,50 €</text:p></table:table-cell>'
        '<table:table-cell office:value-type="float" office:value="123"><text:p>00123</text:p>'
        '</table:table-cell><table:table-cell office:value-type="date" '
        'office:date-value="2026-03-15"><text:p>15.03.26</text:p></table:table-cell>'
        '<table:table-cell office:value-type="time"><text:p>26:30</text:p></table:table-cell>'
    )
    row = f'<table:table-row table:number-rows-repeated="2">{cells}</table:table-row>'
    body = f'<table:table table:name="S">{row}</table:table>'
    extract = extract_bytes("a.ods", make.odt(body, kind="spreadsheet"), SourceOptions())
    line = "| 7.5% | 1234.5 EUR | 00123 | 2026-03-15 | 26:30 |"
    assert extract.text == f"# S\n\n{line}\n| - | - | - | - | - |\n{line}"
