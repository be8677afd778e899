"""CSV files that no spreadsheet runs, and that read back as they were."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, strategies as st

from ragwright.core import csv_cell, csv_lines, csv_text

PIECES = [
    "'",
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    ",",
    ";",
    '"',
    "5",
    ".",
    "e",
    "cmd|' /C calc'!A0",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@pytest.mark.slow
@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=4), st.sampled_from(",;\t"))
def test_rows_read_back_as_they_were(rows: list[list[str]], delimiter: str) -> None:
    text = "".join(csv_lines(rows, delimiter=delimiter))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found = list(reader)
    assert [[csv_text(cell) for cell in cells] for cells in found] == rows
    for cells in found:
        for cell in cells:
            assert not cell.startswith(("=", "@", "\t", "\r"))
            assert not cell.startswith(("+", "-")) or float(cell) is not None


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+49 170", "'+49 170"),
        ("-", "'-"),
        ("-5+cmd|' /C calc'!A0", "'-5+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("'=1", "''=1"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("'tis", "'tis"),
        (-5, -5),
        (-0.5, -0.5),
        (None, ""),
    ],
)
def test_formulas_are_guarded_and_numbers_are_not(value: object, cell: object) -> None:
    assert csv_cell(value) == cell
    if isinstance(value, str):
        assert csv_text(str(cell)) == value
