"""BEIR folders: every good line a document, every bad one a failure that names it."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from benchmarks.data_sets import DATA, printed_strings, scifact_beir

from ragwright.core import Document, DuplicateIdError, EmptySourceError, RagwrightError
from ragwright.ingest import BeirReader, Failure, Fetched


def no_network(url: str) -> Fetched:
    raise AssertionError(f"asked for {url}")


def read(folder: Path, base: Path | None = None) -> list[Document | Failure]:
    return list(BeirReader(base or Path()).read(f"beir:{folder}", no_network))


def write(folder: Path, *lines: object) -> Path:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    (folder / "corpus.jsonl").write_text(text + "\n", "utf-8")
    return folder


GOOD = {"_id": "1", "title": "Pumps", "text": "A pump moves water.", "metadata": {"topic": "m"}}


def test_a_line_is_a_document(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path, GOOD))
    assert isinstance(found, Document)
    assert (found.id, found.title, found.text) == ("1", "Pumps", "A pump moves water.")
    assert found.metadata == {"topic": "m"}
    assert found.source.endswith("corpus.jsonl:1")


@pytest.mark.parametrize(
    "bad",
    [
        "{not json",
        "[1, 2]",
        '{"title": "no id", "text": "x"}',
        '{"_id": "", "text": "x"}',
        '{"_id": "9", "text": 5}',
        '{"_id": "9", "text": "", "title": ""}',
        '{"_id": "9", "text": "x", "metadata": [1]}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_named_and_costs_nothing_else(tmp_path: Path, bad: str) -> None:
    found = read(write(tmp_path, GOOD, bad, {**GOOD, "_id": "2"}))
    assert [d.id for d in found if isinstance(d, Document)] == ["1", "2"]
    (failure,) = [f for f in found if isinstance(f, Failure)]
    assert (failure.error.where or "").endswith("corpus.jsonl:2")


def test_bytes_that_are_no_utf8_are_a_bad_line(tmp_path: Path) -> None:
    good = json.dumps(GOOD).encode()
    (tmp_path / "corpus.jsonl").write_bytes(b'{"_id": "0", "text": "\xff\xfe"}\n' + good)
    failure, document = read(tmp_path)
    assert isinstance(failure, Failure)
    assert isinstance(document, Document)


def test_a_repeated_id_names_both_lines_and_the_first_stays(tmp_path: Path) -> None:
    first, failure, last = read(
        write(tmp_path, GOOD, "", {**GOOD, "text": "b"}, {"_id": 7, "text": "c"})
    )
    assert isinstance(first, Document)
    assert first.text == GOOD["text"]
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, DuplicateIdError)
    assert "line 1 and again on line 3" in str(failure.error)
    assert isinstance(last, Document)
    assert last.id == "7"


def test_a_title_stands_in_for_an_empty_text(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path, {"_id": "1", "title": "Only a title", "text": " "}))
    assert isinstance(found, Document)
    assert found.text == "Only a title"


def test_paths_start_from_the_base_and_a_missing_corpus_is_said(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    write(tmp_path / "set", GOOD)
    assert isinstance(read(Path("set"), tmp_path)[0], Document)
    (found,) = read(Path("none"), tmp_path)
    assert isinstance(found, Failure)
    assert isinstance(found.error, RagwrightError)
    assert found.error.hint


def test_printed_arrays_are_read_back() -> None:
    text = "['It\\'s one.'\n \"Two's [here].\" 'tab\\t']"
    assert printed_strings(text) == ["It's one.", "Two's [here].", "tab\t"]
    with pytest.raises(ValueError, match="printed array"):
        printed_strings("['a' ... 'b']")


@pytest.mark.slow
@pytest.mark.needs_data
def test_scifact_is_whole(tmp_path: Path) -> None:
    archive = DATA / "scifact" / "scifact.zip"
    folder = scifact_beir(tmp_path)
    found = read(folder)
    with zipfile.ZipFile(archive) as opened:
        rows = csv.DictReader(
            io.TextIOWrapper(opened.open("corpus_train.csv"), "utf-8", newline="")
        )
        expected = {row["doc_id"]: row["title"] for row in rows}
    documents = {d.id: d for d in found if isinstance(d, Document)}
    assert len(found) == len(documents) == 5183
    assert documents.keys() == expected.keys()
    pairs = [line.split("\t") for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]]
    assert len(pairs) == 339
    assert len({query for query, _, _ in pairs}) == 300
    assert {document for _, document, _ in pairs} <= documents.keys()


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_corpus_without_documents_is_a_failure(tmp_path: Path, text: str) -> None:
    (tmp_path / "corpus.jsonl").write_text(text, "utf-8")
    (found,) = read(tmp_path)
    assert isinstance(found, Failure)
    assert isinstance(found.error, EmptySourceError)


def test_a_converter_without_its_data_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="scifact"):
        scifact_beir(tmp_path / "made", tmp_path / "no data")
    assert not (tmp_path / "made").exists()
