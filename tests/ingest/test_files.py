"""Files and folders: what is found, what is read, and what is said about bad input."""

from __future__ import annotations

import os
import random
import sys
import tracemalloc
from pathlib import Path

import made_files as make
import pytest
from benchmarks.documents import no_network

from ragwright.core import (
    Document,
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    MissingExtraError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
)
from ragwright.ingest import Extract, Failure, FileReader, SourceOptions, extract_bytes


def read(name: str, data: bytes, options: SourceOptions | None = None) -> Extract:
    return extract_bytes(name, data, options or SourceOptions())


def refused(
    kind: type[RagwrightError], name: str, data: bytes, options: SourceOptions | None = None
) -> str:
    """The message of the error, which must name the place and a way out."""
    with pytest.raises(kind) as caught:
        read(name, data, options)
    assert type(caught.value) is kind
    assert name in (caught.value.where or "")
    assert caught.value.hint
    return str(caught.value)


def folder(
    path: Path, options: SourceOptions | None = None, source: str = "."
) -> tuple[list[Document], list[Failure]]:
    found = list(FileReader(options, base=path).read(source, no_network))
    return (
        [item for item in found if isinstance(item, Document)],
        [item for item in found if isinstance(item, Failure)],
    )


def without(library: str, packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a library away, from processes that read documents as well."""
    packages.mkdir()
    (packages / f"{library}.py").write_text("raise ModuleNotFoundError(name=__name__)", "utf-8")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, library, raising=False)


# Bad input, each built here.


@pytest.mark.slow
def test_encrypted_pdf() -> None:
    assert "password" in refused(
        EncryptedSourceError, "a.pdf", make.pdf([make.lines("secret")], password=b"hush")
    )


def test_scan() -> None:
    picture = "q 500 0 0 700 50 50 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q"
    never = SourceOptions(ocr="never")
    scan = make.pdf([picture, picture])
    assert "scan" in refused(EmptySourceError, "scan.pdf", scan, never)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_truncated_files(keep: float) -> None:
    body = "".join(f"<text:p>{n * n}</text:p>" for n in range(3000))
    for name, data in (("a.odt", make.odt(body)), ("a.xlsx", make.xlsx({"S": [["a", "b"]]}))):
        refused(MalformedSourceError, name, data[: int(len(data) * keep)])
    pdf = make.pdf([make.lines("x")])
    refused(MalformedSourceError, "a.pdf", pdf[: int(len(pdf) * keep * 0.3)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("a.docx", "word/document.xml"),
        ("a.pptx", "ppt/presentation.xml"),
        ("a.xlsx", "xl/workbook.xml"),
        ("a.odt", "content.xml"),
        ("a.epub", "META-INF/container.xml"),
    ],
)
def test_zip_bombs(name: str, member: str) -> None:
    kinds = {
        "a.odt": {"mimetype": b"application/vnd.oasis.opendocument.text"},
        "a.epub": {"mimetype": b"application/epub+zip"},
    }
    bomb = make.archive({**kinds.get(name, {}), member: b" " * 60_000_000})
    tracemalloc.start()
    try:
        assert "unpack" in refused(MalformedSourceError, name, bomb)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_bomb_that_lies_about_its_size_is_not_unpacked() -> None:
    bomb = make.lying_archive("xl/workbook.xml", b" " * 60_000_000, 1000)
    tracemalloc.start()
    try:
        assert "damaged" in refused(MalformedSourceError, "a.xlsx", bomb)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_two_cells_in_far_corners_are_not_a_table_of_billions() -> None:
    data = make.xlsx({"S": [["a", "b"]]}, places={"B1": "XFD1048576"})
    assert read("a.xlsx", data).text == "# S\n\n| a | b |\n| - | - |"


@pytest.mark.slow
def test_archives_that_unpack_to_too_much_are_refused() -> None:
    data = make.odt("<text:p>" + "word " * 5_000_000 + "</text:p>")
    refused(MalformedSourceError, "a.odt", data)
    short = make.odt("<text:p>" + "word " * 500_000 + "</text:p>")
    assert read("a.odt", short).text.startswith("word word")
    refused(MalformedSourceError, "a.odt", short, SourceOptions(max_unpacked_bytes=1_000_000))


def test_entities_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY a "xxxx"><!ENTITY b "&a;&a;&a;">]>'
    assert "entities" in refused(
        MalformedSourceError, "a.odt", make.odt("<text:p>&b;</text:p>", before=bomb)
    )
    outside = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    refused(MalformedSourceError, "a.odt", make.odt("<text:p>&a;</text:p>", before=outside))


def test_wrong_ending_is_read_by_content_where_a_reader_knows_it() -> None:
    pdf = read("notes.txt", make.pdf([make.lines("inside a PDF")]))
    assert pdf.text == "inside a PDF"
    assert pdf.metadata["detected_format"] == "pdf"
    page = read("paper.pdf", b"<!doctype html><title>Gone</title><h1>Not found</h1>")
    assert (page.title, page.metadata["detected_format"]) == ("Gone", "html")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.epub"])
def test_text_that_calls_itself_a_document_is_refused(name: str) -> None:
    assert "plain text" in refused(MalformedSourceError, name, b"only words")


def test_a_picture_is_known_by_its_bytes_and_refused_without_ocr() -> None:
    never = SourceOptions(ocr="never")
    message = refused(UnsupportedSourceError, "a.txt", make.png(), never)
    assert "images are read by text recognition (OCR)" in message
    assert "ocr: never" in message


def test_what_no_reader_knows() -> None:
    assert "a GIF image" in refused(UnsupportedSourceError, "a.gif", b"GIF89a" + bytes(50))
    refused(UnsupportedSourceError, "a.txt", bytes(range(256)) * 10)
    refused(UnsupportedSourceError, "a", b"PK\x03\x04" + bytes(100))
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500) + "WordDocument".encode("utf-16-le")
    assert ".doc" in refused(UnsupportedSourceError, "a.doc", old)


def test_locked_office_file() -> None:
    data = make.ole("EncryptionInfo", "EncryptedPackage")
    refused(EncryptedSourceError, "a.docx", data)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html", "a.pdf", "a.docx", "a.eml"])
def test_empty_files(name: str) -> None:
    refused(EmptySourceError, name, b"")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html"])
def test_white_space_is_not_text(name: str) -> None:
    refused(EmptySourceError, name, b" \n\t \n")


@pytest.mark.slow
def test_one_line_of_twenty_megabytes() -> None:
    data = b"all of the work and no play " * 720_000
    extract = read("a.txt", data)
    assert len(extract.text) == len(data)
    assert extract.language == "en"


@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.html", "a.eml"])
def test_one_long_line_in_other_formats(name: str) -> None:
    read(name, b"<p>" + b"all work and no play " * 50_000)


def test_invalid_utf8() -> None:
    old = read("a.txt", "Café – “naïve” garçon".encode("cp1252"))
    assert old.text == "Café – “naïve” garçon"
    assert old.metadata["encoding"] == "cp1252"
    broken = read("a.txt", "Größe über alles, Äpfel ".encode() * 5 + b"\xff end")
    assert broken.text.startswith("Größe")
    assert "ÿ end" in broken.text
    assert "invalid" in str(broken.metadata["encoding"])
    assert read("a.txt", "Grüße".encode("utf-16")).text == "Grüße"
    assert (
        read("a.txt", "日本".encode("shift_jis"), SourceOptions(encoding="shift_jis")).text
        == "日本"
    )
    refused(UnsupportedSourceError, "a.txt", b"\xff\xff", SourceOptions(encoding="utf-8"))


def test_ragged_rows_are_named_by_line_and_kept() -> None:
    extract = read("a.csv", b'a,b,c\n1,2,3\n"x\ny",2\n4,5,6,7\n')
    (fault,) = extract.faults
    assert "row 3 has 2" in str(fault)
    assert "row 5 has 4" in str(fault)
    assert fault.where == "a.csv:3"
    assert "| x y | 2 |  |" in extract.text
    assert "| 4 | 5 | 6,7 |" in extract.text


def test_an_open_quote_does_not_swallow_the_rest() -> None:
    extract = read("a.csv", b'a,b\n"x,1\ny,2\n')
    assert "quot" in extract.faults[0].what
    assert "| y | 2 |" in extract.text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(delimiter: str) -> None:
    rows = [["name", "a price, net", "place; street"], ["x", "1,5", "Rue A; 3"], ["y", "2,5", "B"]]
    text = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    extract = read("a.csv", text.encode())
    assert not extract.faults
    assert "| x | 1,5 | Rue A; 3 |" in extract.text


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_never_escape_as_another_error(seed: int) -> None:
    choice = random.Random(seed)
    for name, data in (
        (
            "a.pdf",
            make.pdf([make.lines("some words"), make.ruled_table([["a", "b"], ["c", "d"]], 500)]),
        ),
        ("a.odt", make.odt("<text:p>words</text:p>")),
        ("a.epub", make.epub(["<p>words</p>"])),
        ("a.xlsx", make.xlsx({"S": [["a", 1.0]]})),
        ("a.eml", b"Subject: x\nContent-Type: multipart/mixed; boundary=q\n\n--q\n\nwords\n--q--"),
        ("a.html", b"<table><tr><td>a<td>b</table><p>words"),
    ):
        broken = bytearray(data)
        for _ in range(choice.randrange(1, 30)):
            broken[choice.randrange(len(broken))] = choice.randrange(256)
        try:
            extract = read(name, bytes(broken))
        except RagwrightError:
            continue
        assert extract.text or extract.attachments


@pytest.mark.slow
def test_a_missing_library_is_named_with_the_way_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without("pypdfium2", tmp_path / "packages", monkeypatch)
    (tmp_path / "a.pdf").write_bytes(make.pdf([make.lines("x")]))
    (tmp_path / "b.txt").write_text("words", "utf-8")
    found, (failure,) = folder(tmp_path, SourceOptions(exclude=("packages",)))
    assert [d.id for d in found] == ["b.txt"]
    assert isinstance(failure.error, MissingExtraError)
    assert "ragwright[docs]" in (failure.error.hint or "")


# Formats.


def test_pdf_pages_tables_and_metadata() -> None:
    table = make.ruled_table([["Code", "Meaning"], ["APP_w304", "door open"]], 560)
    data = make.pdf(
        [
            make.lines("Big Title", size=30)
            + make.lines("Before the table", top=600)
            + make.lines("After the table", top=480)
            + table,
            make.lines("Second page"),
        ],
        info="<</Title(Car Manual)/Author(ACME)/CreationDate(D:20240131120000+02'00')>>",
    )
    extract = read("a.pdf", data)
    assert (extract.title, extract.metadata["author"]) == ("Car Manual", "ACME")
    assert extract.created == "2024-01-31T12:00:00+02:00"
    first, second = extract.pages
    assert extract.text[second.span.start : second.span.end] == "Second page"
    page = extract.text[first.span.start : first.span.end]
    assert "| Code | Meaning |\n| - | - |\n| APP_w304 | door open |" in page
    assert page.count("APP_w304") == 1
    assert page.index("Before") < page.index("APP_w304") < page.index("After")
    assert [s.title for s in extract.sections] == ["Big Title"]


def test_epub_follows_the_spine() -> None:
    extract = read("a.epub", make.epub(["<h1>Two</h1><p>second</p>", "<h1>One</h1><p>first</p>"]))
    assert extract.text.index("first") < extract.text.index("second")
    assert (extract.title, extract.language, extract.created) == ("The Book", "fr", "1862-04-03")
    assert [s.title for s in extract.sections] == ["One", "Two"]


def test_workbook_sheets_are_pages_and_blocks_tables() -> None:
    extract = read(
        "a.xlsx",
        make.xlsx({"Prices": [["a", "b", "", "x"], [1, 2.5, "", "y"]], "Rest": [["only"]]}),
    )
    assert [p.label for p in extract.pages] == ["Prices", "Rest"]
    assert "| a | b | x |\n| - | - | - |\n| 1 | 2.5 | y |" in extract.text


def test_word_lists_tables_and_headings(tmp_path: Path) -> None:
    import docx

    document = docx.Document()
    document.core_properties.title = "Plan"
    document.add_heading("First", 1)
    document.add_paragraph("one", style="List Number")
    document.add_paragraph("two", style="List Number")
    table = document.add_table(2, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).text = "a|b"
    document.add_heading("Deeper", 2)
    document.add_paragraph("end")
    document.save(str(tmp_path / "a.docx"))
    extract = read("a.docx", (tmp_path / "a.docx").read_bytes())
    assert extract.title == "Plan"
    assert [(s.title, s.level) for s in extract.sections] == [("First", 1), ("Deeper", 2)]
    assert "1. one\n2. two" in extract.text
    assert "| wide | wide |  |\n| - | - | - |\n|  |  | a\\|b |" in extract.text
    truncated = (tmp_path / "a.docx").read_bytes()[:-1000]
    refused(MalformedSourceError, "a.docx", truncated)


@pytest.mark.slow
def test_slides_have_notes_and_tables(tmp_path: Path) -> None:
    import pptx
    from pptx.util import Inches

    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Results"
    slide.placeholders[1].text = "good\nbetter"
    shape = slide.shapes.add_table(1, 2, Inches(1), Inches(4), Inches(4), Inches(1))
    shape.table.cell(0, 0).text, shape.table.cell(0, 1).text = "x", "y"
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    show.save(str(tmp_path / "a.pptx"))
    extract = read("a.pptx", (tmp_path / "a.pptx").read_bytes())
    assert [p.label for p in extract.pages] == ["Results"]
    assert extract.text.startswith("# Results\n\n- good\n- better\n\n| x | y |")
    assert "Notes: say it slowly" in extract.text


def test_markdown_front_matter_and_sections() -> None:
    data = (
        b"---\ntitle: Error C2065\ndate: 2024-01-02\nf1_keywords: [C2065]\nlang: en-US\n---\n"
        b"# Error\ntext\n```\n# not a heading\n```\n## More\nlast\n"
    )
    extract = read("a.md", data)
    assert (extract.title, extract.created, extract.language) == ("Error C2065", "2024-01-02", "en")
    assert extract.metadata["f1_keywords"] == ("C2065",)
    assert [(s.title, s.level) for s in extract.sections] == [("Error", 1), ("More", 2)]
    assert extract.text.startswith("# Error\ntext\n```\n# not")


def test_source_code_keeps_its_form_and_names_its_language() -> None:
    code = "def f(x):\n\treturn x  # ok\n"
    extract = read("a.py", code.encode())
    assert extract.text == code
    assert extract.metadata["code_language"] == "python"
    assert read("a.js", b"<html>no page</html>").text == "<html>no page</html>"


def test_form_feeds_part_pages() -> None:
    extract = read("rfc.txt", b"one\n\x0ctwo\n\x0cthree\n")
    assert [extract.text[p.span.start : p.span.end].strip() for p in extract.pages] == [
        "one",
        "two",
        "three",
    ]
    assert extract.pages[-1].span.end == len(extract.text)


@pytest.mark.slow
def test_mail_prefers_plain_text_and_hands_on_attachments(tmp_path: Path) -> None:
    from email.message import EmailMessage

    inner = EmailMessage()
    inner["Subject"] = "Inner"
    inner.set_content("inside words")
    mail = EmailMessage()
    mail["Subject"] = "Réunion"
    mail["From"] = "a@example.org"
    mail["Date"] = "Mon, 05 Feb 2024 10:00:00 +0100"
    mail.set_content("plain words")
    mail.add_alternative("<p>html words</p>", subtype="html")
    mail.add_attachment("x,y\n1,2\n", subtype="csv", filename="../t.csv")
    mail.add_attachment(make.png(), maintype="image", subtype="png", filename="p.png")
    mail.add_attachment(inner)
    (tmp_path / "m.eml").write_bytes(bytes(mail))
    found, failures = folder(tmp_path, SourceOptions(ocr="never"))
    assert [d.id for d in found] == ["m.eml", "m.eml#t.csv", "m.eml#message-3.eml"]
    assert (found[0].title, found[0].text) == ("Réunion", "plain words")
    assert found[0].created == "2024-02-05T10:00:00+01:00"
    assert found[2].text == "inside words"
    assert [f.source for f in failures] == ["m.eml#p.png"]


# Folders.


def test_folders_are_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/b/c.txt", ".hidden", ".ragwright/x.txt", "c.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}", "utf-8")
    found, failures = folder(tmp_path)
    assert [d.id for d in found] == ["a/b/c.txt", "a/z.md", "b.txt", "c.log"]
    assert not failures
    only, _ = folder(tmp_path, SourceOptions(include=("*.txt",), exclude=("a/b",)))
    assert [d.id for d in only] == ["b.txt"]
    deep, _ = folder(tmp_path, SourceOptions(include=("**/*.md",)))
    assert [d.id for d in deep] == ["a/z.md"]
    star, _ = folder(tmp_path, source="a/*.md")
    assert [d.id for d in star] == ["a/z.md"]


def test_ids_are_relative_to_the_base_inside_and_beside_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x", "utf-8")
    (tmp_path / "out.txt").write_text("y", "utf-8")
    base = tmp_path / "in"
    assert [d.id for d in folder(base, source="a.txt")[0]] == ["a.txt"]
    assert [d.id for d in folder(base, source=str(base / "a.txt"))[0]] == ["a.txt"]
    assert [d.id for d in folder(base, source="../out.txt")[0]] == ["../out.txt"]
    assert [d.id for d in folder(base, source=(base / "a.txt").as_uri())[0]] == ["a.txt"]


def test_a_folder_goes_on_past_bad_files(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_text("good", "utf-8")
    (tmp_path / "d.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "e.txt")
    found, failures = folder(tmp_path)
    assert [d.id for d in found] == ["c.txt"]
    assert [f.source for f in failures] == ["a.pdf", "b.txt", "d.txt", "e.txt"]
    assert all(f.error.hint for f in failures)


def test_links_that_loop_end(tmp_path: Path) -> None:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "a.txt").write_text("x", "utf-8")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "b.txt").write_text("y", "utf-8")
    (tmp_path / "root" / "sub" / "loop").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "linked").symlink_to(tmp_path / "beside")
    (tmp_path / "beside" / "back").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "self").symlink_to("self")
    found, failures = folder(tmp_path, source="root")
    assert [d.id for d in found] == ["root/sub/a.txt"]
    assert [(f.source, f.skipped) for f in failures] == [
        ("root/linked", True),
        ("root/self", False),
    ]
    found, failures = folder(tmp_path, SourceOptions(follow_links=True), source="root")
    assert [d.id for d in found] == ["root/linked/b.txt", "root/sub/a.txt"]
    assert [f.source for f in failures] == ["root/self"]


def test_missing_and_empty_and_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (missing,) = folder(tmp_path, source="nothing.pdf")
    assert type(missing.error) is SourceError
    assert "nothing.pdf" in str(missing.error)
    _, (empty,) = folder(tmp_path)
    assert empty.skipped
    assert "empty" in empty.error.what
    (tmp_path / "a.png").write_bytes(b"")
    _, (unmatched,) = folder(tmp_path, SourceOptions(include=("*.md",)))
    assert not unmatched.skipped
    assert "no file" in unmatched.error.what
    (tmp_path / "a.png").unlink()
    (tmp_path / "a.txt").write_text("x", "utf-8")

    def forbid(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", forbid)  # the tests may run as root
    _, (forbidden,) = folder(tmp_path)
    assert "Permission denied" in forbidden.error.what
    assert "right" in (forbidden.error.hint or "")


def test_too_large_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 1000)
    _, (failure,) = folder(tmp_path, SourceOptions(max_bytes=999))
    assert "max_bytes" in str(failure.error)


def test_accepts_paths_and_leaves_addresses_to_others(tmp_path: Path) -> None:
    reader = FileReader(base=tmp_path)
    assert all(map(reader.accepts, ("docs", "a/b.pdf", "/tmp/x", "file:///tmp/x", r"C:\x.pdf")))
    assert not any(map(reader.accepts, ("https://x.org", "beir:data", "wikipedia:Duck")))
    (tmp_path / "odd:name.txt").write_text("x", "utf-8")
    assert reader.accepts("odd:name.txt")


@pytest.mark.slow
def test_one_document_in_memory_at_a_time(tmp_path: Path) -> None:
    """Thirty files of 1 MB: the peak stays near one file, not near their sum."""
    for number in range(30):
        (tmp_path / f"{number:03}.txt").write_bytes(b"some words %d " % number * 70_000)
    reader = FileReader(base=tmp_path)
    tracemalloc.start()
    try:
        count = sum(1 for _ in reader.read(".", no_network))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 30
    assert peak < 20_000_000


def test_nothing_of_the_file_system_gets_into_the_content(tmp_path: Path) -> None:
    """A copy with another date is the same document: times of files are not dates of texts."""
    path = tmp_path / "a.txt"
    path.write_text("words", "utf-8")
    (before,), _ = folder(tmp_path)
    os.utime(path, (1, 1))
    (after,), _ = folder(tmp_path)
    assert before.content_hash() == after.content_hash()
    assert not before.modified


def test_locks_backups_and_packages_are_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    names = ["a.md", "~$a.docx", "a.md~", "#a.md#", "old.bak", "node_modules/x/readme.md"]
    for name in names:
        (tmp_path / name).write_text("Some words.")
    found, failures = folder(tmp_path)
    assert [document.id for document in found] == ["a.md"]
    assert all(failure.skipped for failure in failures)
    assert {f.source for f in failures} == {
        "~$a.docx",
        "a.md~",
        "#a.md#",
        "old.bak",
        "node_modules",
    }
    found, _ = folder(tmp_path, SourceOptions(include=("*.bak",)))
    assert [document.id for document in found] == ["old.bak"]
