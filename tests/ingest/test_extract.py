"""Every format: what is kept, what is refused and why, and what hostile files may cost."""

from __future__ import annotations

import random
import re
import resource
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_files as make
import pytest
from one_file import Data, as_bytes, read, read_all, refused
from reader_table import ROWS, Row

from ragwright.core import (
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.format}: {row.what}")
def test_a_thing_is_kept_or_left_out_as_the_reference_says(tmp_path: Path, row: Row) -> None:
    documents, said = read_all(tmp_path, row.name, row.sample(), main_text=row.main_text)
    text = " ".join(
        f"{d.text} {dict(d.metadata)} {[s.title for s in d.sections]}" for d in documents
    )
    assert documents
    assert (row.shown in text) == (row.state == "kept")
    assert row.said in " ".join(str(failure.error) for failure in said)
    assert len(said) == bool(row.said)
    assert row.said or row.state != "counted"


BOOK = make.epub(["<h1>Two</h1><p>second</p>", "<h1>One</h1><p>first</p>"])


def test_books_follow_the_spine_and_slides_of_open_document_need_a_parser() -> None:
    book = read("a.epub", BOOK)
    assert book.text == "# One\n\nfirst\n\n# Two\n\nsecond"
    assert (book.title, book.language, book.created) == ("The Book", "fr", "1862-04-03")
    assert [s.title for s in book.sections] == ["One", "Two"]
    with pytest.raises(UnsupportedSourceError, match="OpenDocument presentation") as caught:
        read("a.odp", make.odt("", kind="presentation"))
    assert "parser: kreuzberg" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "data", "text", "found"),
    [
        ("notes.txt", make.pdf_of("inside a PDF"), "inside a PDF", "pdf"),
        (
            "paper.pdf",
            "<!doctype html><title>Gone</title><h1>Not found</h1>",
            "# Not found",
            "html",
        ),
        ("a.pdf", make.pdf([make.lines("readable")], owner=b"rights"), "readable", None),
        ("a.html", "<p data-state='{0} > {0}'>Kept".format("word " * 20_000), "Kept", None),
    ],
    ids=["PDF", "HTML", "owner's password", "long attribute"],
)
def test_a_file_is_read_by_its_content(name: str, data: Data, text: str, found: Any) -> None:
    extract = read(name, data, max_seconds=40)
    assert (extract.text, extract.metadata.get("detected_format")) == (text, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a.docx", lambda n: make.word(make.paragraph(make.run(n)))),
        ("a.xlsx", lambda n: make.xlsx({"S": [["x", n]]})),
        ("a.odt", lambda n: make.odt(f"<text:p>{n}</text:p>")),
        ("a.html", lambda n: f"<p>{n}</p><table><tr><td>x<td>{n}</table>".encode()),
        ("a.csv", lambda n: f'a;b\n"{n}";x\n'.encode()),
        ("a.md", lambda n: f"x {n}".encode()),
        ("a.pdf", lambda n: make.pdf_of(f"Value {n} here")),
    ],
)
def test_no_number_changes(name: str, made: Callable[[str], bytes]) -> None:
    for number in make.NUMBERS:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", read(name, made(number)).text)


PICTURE = "q 500 0 0 700 50 50 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q"
HEAVY = make.odt("".join(f"<text:p>{n * n}</text:p>" for n in range(3000)))
SHEET, PAGE = make.xlsx({"S": [["a", "b"]]}), make.pdf_of("x")
USERS = make.pdf([""], password=b"u", owner=b"o")
WORDS = "Workbook Book Title WordDocument"
WORDY = make.word(make.paragraph(make.run("Body.")))
DTD = "<!DOCTYPE a [<!ENTITY a {}>]>"
BAD, NONE = MalformedSourceError, EmptySourceError
LOCKED, UNKNOWN = EncryptedSourceError, UnsupportedSourceError
REFUSED: dict[str, tuple[type[RagwrightError], str, Data, str]] = {
    "user's password": (LOCKED, "a.pdf", USERS, "needs a password"),
    "user's password, what helps": (LOCKED, "a.pdf", USERS, "qpdf"),
    "locked Office file": (LOCKED, "a.docx", make.ole("EncryptedPackage"), "password"),
    "scan": (NONE, "scan.pdf", make.pdf([PICTURE, PICTURE]), "scan"),
    "outer entity": (BAD, "a.odt", make.odt("&a;", before=DTD.format('SYSTEM "x"')), "entities"),
    "entity": (BAD, "a.odt", make.odt("&a;", before=DTD.format('"xx"')), "entities"),
    "picture": (UNKNOWN, "a.txt", make.png(), "images are read by text recognition (OCR)"),
    "picture's remedy": (UNKNOWN, "a.png", make.png(), "ocr: never"),
    "GIF": (UNKNOWN, "a.gif", b"GIF89a" + bytes(50), "a GIF image"),
    "bytes": (UNKNOWN, "a.txt", bytes(range(256)) * 10, "binary data"),
    "archive": (UNKNOWN, "a", b"PK\x03\x04" + bytes(100), ""),
    "no archive": (BAD, "a.docx", make.archive({"word/document.xml": "<w:document"}), "word/doc"),
    "cut Word file": (BAD, "a.docx", WORDY[:-200], ""),
    **{
        f"{name} of words": (BAD, name, "only words", "plain text")
        for name in ("a.pdf", "a.docx", "a.xlsx", "a.epub")
    },
    **{
        f"cut {name} {keep}": (BAD, name, data[: int(len(data) * keep)], "")
        for keep in (0.1, 0.5, 0.9)
        for name, data in (("a.odt", HEAVY), ("a.xlsx", SHEET), ("a.pdf", PAGE[:200]))
    },
    **{
        f"empty {name}": (NONE, name, b"", "")
        for name in ("a.txt", "a.md", "a.csv", "a.html", "a.pdf", "a.docx", "a.eml")
    },
    **{
        f"white {name}": (NONE, name, " \n\t \n", "")
        for name in ("a.txt", "a.md", "a.csv", "a.html")
    },
    **{
        f"old {said}": (UNKNOWN, "a.doc", make.ole("Title", *names, text=WORDS), said)
        for names, said in (
            (["WordDocument"], "old Word document"),
            (["WordDocument"], "kreuzberg"),
            (["PowerPoint Document"], "old PowerPoint file"),
            (["__properties_version1.0"], "Outlook message"),
            (["Contents"], "old Office file"),
        )
    },
    "nested HTML": (BAD, "a.html", "<div>" * 50_000 + "deep", "are nested"),
    "badly nested HTML": (BAD, "a.html", "<div></span>" * 50_000 + "deep", "are nested"),
    "HTML of attributes": (
        BAD, "a.html", f"<p {' '.join(f'a{n}=1' for n in range(50_000))}>text", "attributes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_reason(fault: str) -> None:
    kind, name, data, said = REFUSED[fault]
    assert said in refused(kind, name, data, ocr="never")


BOMB = b" " * 60_000_000
MANY = {"a.odt": b"application/vnd.oasis.opendocument.text", "a.epub": b"application/epub+zip"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "member", "said"),
    [
        ("a.docx", "word/document.xml", "unpack"),
        ("a.pptx", "ppt/presentation.xml", "unpack"),
        ("a.xlsx", "xl/workbook.xml", "unpack"),
        ("a.odt", "content.xml", "unpack"),
        ("a.epub", "META-INF/container.xml", "unpack"),
        ("a.xlsx", "a lie about xl/workbook.xml", "damaged"),
    ],
)
def test_a_bomb_is_not_unpacked(name: str, member: str, said: str) -> None:
    kind = {"mimetype": MANY[name]} if name in MANY else {}
    bomb = make.archive({**kind, member: BOMB})
    if said == "damaged":
        bomb = make.lying_archive("xl/workbook.xml", BOMB, 1000)
    tracemalloc.start()
    try:
        assert said in refused(MalformedSourceError, name, bomb)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_limits_of_size_memory_and_time_hold_and_the_next_file_is_read() -> None:
    refused(BAD, "a.odt", make.odt("<text:p>" + "word " * 5_000_000 + "</text:p>"))
    short = make.odt("<text:p>" + "word " * 500_000 + "</text:p>")
    assert read("a.odt", short).text.startswith("word word")
    refused(BAD, "a.odt", short, max_unpacked_bytes=1_000_000)
    many = zlib.compressobj(9)
    packed = b"".join(many.compress(b"BT /F 1 Tf (A) Tj ET\n" * 100_000) for _ in range(60))
    packed += many.flush()
    assert len(packed) < 1_000_000
    head, tail = make.pdf([""]).split(b"<</Length 0>>stream\n", 1)
    stream = b"<</Length %d/Filter/FlateDecode>>stream\n" % len(packed) + packed
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = refused(UNKNOWN, "bomb.pdf", head + stream + tail, max_memory=100_000_000)
    assert "max_memory" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000
    rules = "".join(
        f"0 {y / 9} m 600 {y / 9} l S\n{y / 9} 0 m {y / 9} 800 l S\n" for y in range(5000)
    )
    slow = make.pdf([make.lines("x") + rules])
    assert "max_seconds" in refused(UNKNOWN, "slow.pdf", slow, max_seconds=0.3)
    # the next file finds another worker
    assert read("b.pdf", make.pdf_of("next")).text == "next"


WHOLE: dict[str, Data] = {
    "a.pdf": make.pdf([make.lines("some words"), make.ruled_table([["a", "b"], ["c", "d"]], 500)]),
    "a.odt": make.odt("<text:p>words</text:p>"),
    "a.epub": make.epub(["<p>words</p>"]),
    "a.xlsx": make.xlsx({"S": [["a", 1.0]]}),
    "a.eml": "Subject: x\nContent-Type: multipart/mixed; boundary=q\n\n--q\n\nwords\n--q--",
    "a.html": "<table><tr><td>a<td>b</table><p>words",
}


@pytest.mark.parametrize("name", WHOLE)
def test_damaged_bytes_never_escape_as_another_error(name: str) -> None:
    for seed in range(20):
        choice, broken = random.Random(seed), bytearray(as_bytes(WHOLE[name]))
        for _ in range(choice.randrange(1, 30)):
            broken[choice.randrange(len(broken))] = choice.randrange(256)
        try:
            extract = read(name, bytes(broken))
        except RagwrightError:
            continue
        assert extract.text or extract.attachments
