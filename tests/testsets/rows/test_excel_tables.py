"""Tables as Excel writes them: Unicode text, a code page, a first line with the separator."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.testsets import read_rows

ROWS = ["Größe des Tanks?", "Wo liegt Köln?"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("mark", [";", ",", "\t"])
@pytest.mark.parametrize("stated", [True, False])
def test_tables_of_excel_are_read(tmp_path: Path, encoding: str, mark: str, stated: bool) -> None:
    head = [f"sep={mark}"] if stated else []
    lines = [*head, f"question{mark}reference", *(f"{row}{mark}für 12 Euro" for row in ROWS)]
    path = tmp_path / "rows.csv"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    rows = read_rows(path)
    assert [row.user_input for row in rows] == ROWS
    assert {row.reference for row in rows} == {"für 12 Euro"}


def test_a_number_is_its_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "How many?", "response": 42, "reference": 1.5}\n', "utf-8")
    [row] = read_rows(path)
    assert (row.response, row.reference) == ("42", "1.5")
