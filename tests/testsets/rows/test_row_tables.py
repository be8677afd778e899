"""Test sets as people keep them: spreadsheets, data frames, CSV of other countries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragwright.core import TestsetError
from ragwright.testsets import load_testset, read_rows, rows_of


@pytest.mark.parametrize(
    ("column", "cell", "found"),
    [
        ("reference_ids", "a.md|b.md", {"a.md": 1, "b.md": 1}),
        ("reference_ids", "a.md; b.md", {"a.md": 1, "b.md": 1}),
        ("reference_ids", '["a.md", "b.md"]', {"a.md": 1, "b.md": 1}),
        ("reference_ids", "a.md", {"a.md": 1}),
        ("Reference IDs", "a;b.md | c.md", {"a;b.md": 1, "c.md": 1}),
    ],
)
def test_a_cell_holds_several_ids(tmp_path: Path, column: str, cell: str, found: Any) -> None:
    quoted = cell.replace('"', '""')
    (tmp_path / "t.csv").write_text(f'question,{column}\nWhy?,"{quoted}"\n', "utf-8")
    (row,) = read_rows(tmp_path / "t.csv")
    assert row.reference_ids == found


def test_a_cell_holds_several_accepted_answers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("question,ground_truths\nWhy?,Paris; France | Paris\n", "utf-8")
    (row,) = read_rows(tmp_path / "t.csv")
    assert row.reference == "Paris; France"
    assert row.metadata["references"] == ("Paris; France", "Paris")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_separator_of_a_csv_file_is_found(tmp_path: Path, mark: str) -> None:
    lines = (("question", "answer"), ("Where, then?", "here; there"))
    text = "\n".join(mark.join(f'"{cell}"' for cell in line) for line in lines)
    (tmp_path / "t.csv").write_text(text, "utf-8")
    (row,) = read_rows(tmp_path / "t.csv", questions=True)
    assert (row.user_input, row.reference) == ("Where, then?", "here; there")


@pytest.mark.parametrize(
    "name", ["expected", "Expected Answer", "gold-answer", "reference answer", "correct_answer"]
)
def test_names_of_a_reference(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text(f"Question,{name}\nWhy?,so\n", "utf-8")
    assert read_rows(tmp_path / "t.csv", questions=True)[0].reference == "so"


def test_a_sheet_is_a_test_set(tmp_path: Path) -> None:
    import xlsxwriter as writer

    with writer.Workbook(tmp_path / "t.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Question", "Expected", "Reference IDs"])
        sheet.write_row(1, 0, ["When?", 1969, "a.md|b.md"])
        sheet.write_row(3, 0, ["Why?", "so", ""])
    first, second = read_rows(tmp_path / "t.xlsx", questions=True)
    assert (first.user_input, first.reference) == ("When?", "1969")
    assert first.reference_ids == {"a.md": 1, "b.md": 1}
    assert (second.user_input, second.reference_ids) == ("Why?", {})
    (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    with pytest.raises(TestsetError, match="not a workbook"):
        read_rows(tmp_path / "bad.xlsx")


def test_a_parquet_file_is_a_test_set(tmp_path: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows = [
        {"question": "When?", "expected": "then", "reference_ids": {"a.md": 2, "b.md": None}},
        {"question": "Why?", "expected": None, "reference_ids": {"a.md": None, "b.md": 1}},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    first, second = read_rows(tmp_path / "t.parquet", questions=True)
    assert (first.reference, first.reference_ids) == ("then", {"a.md": 2})
    assert (second.reference, second.reference_ids) == ("", {"b.md": 1})
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(TestsetError, match="not a Parquet file"):
        read_rows(tmp_path / "bad.parquet")


def frames() -> list[Any]:
    import pandas
    import polars
    import pyarrow as arrow

    rows = [
        {"question": "When?", "expected": "then", "contexts": ["a", "b"], "year": 3},
        {"question": "Why?", "expected": None, "contexts": None, "year": None},
    ]
    return [rows, pandas.DataFrame(rows), polars.DataFrame(rows), arrow.Table.from_pylist(rows)]


def test_rows_of_a_frame_are_rows(tmp_path: Path) -> None:
    for frame in frames():
        first, second = rows_of(frame, questions=True)
        assert (first.user_input, first.reference) == ("When?", "then"), type(frame)
        assert first.retrieved_contexts == ("a", "b")
        assert float(str(first.metadata["year"])) == 3
        assert (second.reference, second.retrieved_contexts) == ("", ())
        assert second.metadata == {}


@pytest.mark.parametrize("rows", [{"train": []}, 3, ["a question"]])
def test_what_is_no_table_says_what_to_give(rows: Any) -> None:
    with pytest.raises(TestsetError, match=r"give|not an object"):
        list(rows_of(rows))


def test_columns_that_are_not_read_are_named_in_one_note(tmp_path: Path) -> None:
    text = "question,answer,Team,language,note\nWhy?,so,a,en,x\nWhen?,then,b,en,\n"
    (tmp_path / "t.csv").write_text(text, "utf-8")
    notes = load_testset(str(tmp_path / "t.csv")).notes
    assert [note for note in notes if "not read" in note] == [
        "columns not read: Team, note (kept with the rows; --by COLUMN shows the scores for each "
        "value)"
    ]
