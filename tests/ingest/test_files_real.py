"""Readers against the Markdown that docling expects of its own test documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.data_sets import DATA
from benchmarks.documents import Kept, compare, no_network

from ragwright.core import Document, EmptySourceError, MalformedSourceError
from ragwright.ingest import Failure, FileReader, SourceOptions

FOLDER = DATA / "documents"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_data,
]

EXTRA = {
    # Charts drawn anew as tables, and the words "line chart", are docling's, not the file's.
    "xlsx_01.xlsx": 0.70,
    # "author", "time" and initials in front of each comment are docling's wording.
    "powerpoint_comments.pptx": 0.90,
    # Numbers of list items that docling makes up, and "y" for a drawn box.
    "table_mislabeled_as_picture.pdf": 0.95,
}


@pytest.fixture(scope="module")
def kept() -> dict[str, Kept]:
    return {row.file: row for row in compare(FOLDER)}


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    reader = FileReader(SourceOptions(), base=FOLDER / "sources")
    found = reader.read(".", no_network)
    return {item.id: item for item in found if isinstance(item, Document)}


def test_every_source_is_read_or_named(kept: dict[str, Kept]) -> None:
    assert len(kept) == 32
    silent = [r.file for r in kept.values() if r.recall is None and not r.failures]
    assert silent == ["eml_with_attachment.eml"]  # nothing is expected of it


def test_the_words_are_kept(kept: dict[str, Kept]) -> None:
    lost = {
        row.file: (row.recall, row.missing.most_common(10))
        for row in kept.values()
        if row.recall is not None and row.recall < EXTRA.get(row.file, 0.97)
    }
    assert not lost


def test_little_is_added(kept: dict[str, Kept]) -> None:
    """Running heads of PDFs, captions, and merged cells stand beside what docling keeps."""
    padded = {r.file: r.precision for r in kept.values() if r.precision and r.precision < 0.85}
    assert not padded


def test_cells_of_tables_stay_cells(kept: dict[str, Kept]) -> None:
    """Apart from the tables docling makes of charts, of a contents page, of a form."""
    apart = {"xlsx_01.xlsx", "redp5110_sampled.pdf", "table_mislabeled_as_picture.pdf"}
    torn = {
        row.file: row.cells
        for row in kept.values()
        if row.cells is not None and row.cells < 0.93 and row.file not in apart
    }
    assert not torn


def test_the_scan_is_named(kept: dict[str, Kept]) -> None:
    (failure,) = kept["ocr_test.pdf"].failures
    assert isinstance(failure.error, EmptySourceError)
    assert "scan" in failure.error.what
    assert "OCR" in (failure.error.hint or "")


def test_the_malformed_csv_is_named_and_its_rows_kept(kept: dict[str, Kept]) -> None:
    row = kept["csv-too-few-columns.csv"]
    (failure,) = row.failures
    assert isinstance(failure.error, MalformedSourceError)
    assert "row 3 has 3" in failure.error.what
    assert row.recall == 1.0


def test_spans_partition_pages_and_start_at_headings(documents: dict[str, Document]) -> None:
    for document in documents.values():
        if document.pages:
            assert document.pages[0].span.start == 0
            assert document.pages[-1].span.end == len(document.text)
        for before, page in zip(document.pages, document.pages[1:], strict=False):
            assert before.span.end == page.span.start
            assert before.number + 1 == page.number
        for section in document.sections:
            start = document.text[section.span.start : section.span.end].lstrip("# ")
            assert start.replace("\n", " ").startswith(section.title[:20])


def test_a_ruled_table_without_side_rules_is_whole_and_in_place(
    documents: dict[str, Document],
) -> None:
    text = documents["2305.03393v1-pg9.pdf"].text
    assert "| 6 | 6 | OTSL HTML | 0.965 0.969 |" in text
    assert text.index("Table 1. HPO") < text.index("| 6 | 6 |") < text.index("5.2 Quantitative")
    assert text.count("0.965") == 1  # not as running text again


def test_titles_dates_and_languages(documents: dict[str, Document]) -> None:
    assert documents["epub_purvis_poetry.epub"].title == "Poetry"
    assert documents["amt_handbook_sample.pdf"].title == "AMT General Handbook"
    assert documents["amt_handbook_sample.pdf"].created == "2017-12-11T09:35:19-06:00"
    assert documents["wiki_duck.html"].title == "Duck - Wikipedia"
    assert documents["right_to_left_01.pdf"].language == "ar"
    assert {documents[n].language for n in ("wiki.md", "multi_page.pdf")} == {"en"}


def test_pages_slides_and_sheets_have_numbers_and_labels(documents: dict[str, Document]) -> None:
    assert len(documents["multi_page.pdf"].pages) == 5
    slides = documents["powerpoint_sample.pptx"].pages
    assert [p.label for p in slides][:2] == ["Test Table Slide", "Second slide title"]
    assert [p.label for p in documents["xlsx_01.xlsx"].pages][:3] == ["Sheet1", "Sheet2", "Sheet3"]


def test_an_attachment_is_a_document_of_its_own(documents: dict[str, Document]) -> None:
    mail = documents["eml_with_attachment.eml"]
    inner = documents["eml_with_attachment.eml#test.txt"]
    assert mail.title == "Email with Attachment"
    assert mail.metadata["from"] == "Alice Example <alice@example.com>"
    assert "dummy content" in " ".join(inner.text.split())
    assert "dummy content" not in mail.text


def test_reading_twice_gives_the_same(documents: dict[str, Document], tmp_path: Path) -> None:
    reader = FileReader(SourceOptions(), base=FOLDER / "sources")
    again = {i.id: i for i in reader.read(".", no_network) if not isinstance(i, Failure)}
    assert {k: v.content_hash() for k, v in again.items()} == {
        k: v.content_hash() for k, v in documents.items()
    }
