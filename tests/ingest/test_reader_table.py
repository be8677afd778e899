"""Each row of the table of what readers keep, against its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_file import read_all
from reader_table import ROWS, Row

from ragwright.ingest import SourceOptions


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.format}: {row.what}")
def test_a_thing_is_kept_or_left_out_as_the_table_says(tmp_path: Path, row: Row) -> None:
    options = SourceOptions(main_text=row.main_text, ocr="never")
    documents, said = read_all(tmp_path, row.name, row.sample(), options)
    text = " ".join(
        f"{d.text} {dict(d.metadata)} {[s.title for s in d.sections]}" for d in documents
    )
    assert documents
    assert (row.shown in text) == (row.state == "kept")
    assert row.said in " ".join(str(failure.error) for failure in said)
    assert len(said) == bool(row.said)
    assert row.said or row.state != "counted"
