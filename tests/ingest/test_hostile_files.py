"""Files built to harm: each fails alone, with a reason, within limits of memory and time."""

from __future__ import annotations

import os
import resource
import socket
import zlib
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path

import made_files as make
import pytest
from benchmarks.documents import no_network

from ragwright.core import (
    ChunkError,
    Document,
    EncryptedSourceError,
    MalformedSourceError,
    UnsupportedSourceError,
)
from ragwright.ingest import (
    ChunkOptions,
    Failure,
    FileReader,
    SourceOptions,
    extract_bytes,
    make_chunker,
)
from ragwright.models import WordTokenizer

SMALL = SourceOptions(max_memory=200_000_000, max_seconds=5)


def folder(
    path: Path, options: SourceOptions | None = None, source: str = "."
) -> tuple[list[Document], list[Failure]]:
    found = list(FileReader(options, base=path).read(source, no_network))
    return (
        [item for item in found if isinstance(item, Document)],
        [item for item in found if isinstance(item, Failure)],
    )


# Front matter.


@pytest.mark.parametrize(
    ("front", "line", "key", "why"),
    [
        ("visibility: private\ncreated: 2024-99-99", 3, "created", "2024-99-99"),
        ("visibility: private\nbig: " + "9" * 5000, 3, "big", "digits"),
        ("visibility: private\nscore: .nan", 3, "score", "finite"),
        ("visibility: private\nscore: 1.0e+999", 3, "score", "finite"),
        ("visibility: private\nscores: [1, .inf]", 3, "scores", "finite"),
        ("visibility: private\nnumber: 18446744073709551616", 3, "number", "64 bits"),
        ("visibility: private\ntitle: [a, b]", 3, "title", "list"),
        ("visibility: private\nVisibility: public", 3, "Visibility", "same field"),
        ("visibility: private\ntitle: a: b", 3, "title", "mapping values"),
        ("visibility: private\ntitle: !!python/name:os.system x", 3, "title", "tag"),
        ("visibility: private\ntitle: " + "[" * 3000 + "]" * 3000, 3, "title", "nested"),
        ("visibility: &v [*v]", 2, "visibility", "itself"),
    ],
)
def test_front_matter_is_read_whole_or_the_document_is_not(
    front: str, line: int, key: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(f"---\n{front}\n---\n\nSecret text.\n", "utf-8")
    (tmp_path / "b.md").write_text("---\nvisibility: private\n---\n\nFine.\n", "utf-8")
    [fine], [failure] = folder(tmp_path)
    assert fine.metadata == {"visibility": "private"}
    assert (failure.source, failure.error.where) == ("a.md", f"a.md:{line}")
    assert f"{key!r}" in failure.error.what
    assert why in failure.error.what
    assert failure.error.hint


@pytest.mark.parametrize(
    "front",
    [
        "visibility:\n  level: private\n  by: owner",
        "visibility: [[private], owner]",
        "visibility: [{level: private}, {by: [owner]}]",
    ],
)
def test_a_filter_meets_every_value_of_a_nested_field(front: str) -> None:
    found = extract_bytes("a.md", f"---\n{front}\n---\n\nText.\n".encode(), SMALL)
    assert found.metadata["visibility"] == ("private", "owner")


@pytest.mark.slow
def test_aliases_of_aliases_are_not_written_out(tmp_path: Path) -> None:
    bomb = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 10))
    (tmp_path / "a.md").write_text(f"---\nk0: &k0 [x]\n{bomb}---\n\nText.\n", "utf-8")
    [], [failure] = folder(tmp_path)
    assert "aliases" in failure.error.what


@pytest.mark.parametrize("filling", ["", "# " + "x" * 70_000 + "\n---\n"])
def test_front_matter_that_does_not_end_is_named(filling: str) -> None:
    with pytest.raises(MalformedSourceError, match="not closed") as caught:
        extract_bytes("a.md", f"---\nvisibility: private\n{filling}text".encode(), SMALL)
    assert caught.value.where == "a.md:1"


def test_rules_around_text_are_no_front_matter() -> None:
    for text in ("---\nA sentence.\n---\n\nMore.\n", "---\n\nA sentence: it ends.\n"):
        assert extract_bytes("a.md", text.encode(), SMALL).text == text


# Memory and time.


def pdf(content: bytes, filters: bytes = b"/FlateDecode") -> bytes:
    """A PDF of one page with a packed content stream."""
    plain = make.pdf([""])
    stream = b"<</Length %d/Filter%s>>stream\n" % (len(content), filters) + content
    head, tail = plain.split(b"<</Length 0>>stream\n", 1)
    return head + stream + tail


@pytest.mark.slow
def test_a_packed_stream_cannot_fill_the_memory() -> None:
    many = zlib.compressobj(9)
    packed = b"".join(many.compress(b"BT /F 1 Tf (A) Tj ET\n" * 100_000) for _ in range(60))
    packed += many.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(packed) < 1_000_000
    with pytest.raises(UnsupportedSourceError, match="max_memory") as caught:
        extract_bytes("bomb.pdf", pdf(packed), SourceOptions(max_memory=100_000_000))
    assert caught.value.where == "bomb.pdf"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000
    # the next file finds another worker
    assert "next" in extract_bytes("b.pdf", make.pdf([make.lines("next")]), SMALL).text


@pytest.mark.slow
def test_a_file_that_takes_too_long_is_ended() -> None:
    rules = "".join(
        f"0 {y / 9} m 600 {y / 9} l S\n{y / 9} 0 m {y / 9} 800 l S\n" for y in range(5000)
    )
    data = make.pdf([make.lines("x") + rules])
    with pytest.raises(UnsupportedSourceError, match="max_seconds") as caught:
        extract_bytes("slow.pdf", data, SourceOptions(max_seconds=0.3))
    assert caught.value.where == "slow.pdf"


@pytest.mark.parametrize(
    ("html", "what"),
    [
        ("<div>" * 50_000 + "deep", "are nested"),
        ("<div></span>" * 50_000 + "deep", "are nested"),
        ("<p " + "".join(f"a{n}=1 " for n in range(50_000)) + ">text", "attributes"),
    ],
)
def test_html_that_exhausts_parsers_is_refused(html: str, what: str) -> None:
    with pytest.raises(MalformedSourceError, match=what) as caught:
        extract_bytes("a.html", html.encode(), SMALL)
    assert caught.value.where == "a.html"


@pytest.mark.slow
def test_long_attributes_and_open_paragraphs_are_no_attack() -> None:
    words = " ".join(["word"] * 20_000)
    page = f"<p data-state='{words} > {words}'>Kept" + "<p>one<br>" * 12_000
    # 5 s of processor time are too few for it on a slow machine.
    patient = replace(SMALL, max_seconds=40)
    assert "Kept" in extract_bytes("a.html", page.encode(), patient).text


@pytest.mark.slow
def test_a_chunk_pattern_that_backtracks_is_named() -> None:
    options = ChunkOptions(by="entries", pattern="^(a|aa)+$")
    chunker = make_chunker(options, WordTokenizer())
    with pytest.raises(ChunkError, match=r"chunk\.pattern") as caught:
        chunker.chunks(Document(id="a.txt", source="a.txt", text="a" * 60 + "!\n"))
    assert caught.value.where == "a.txt"
    assert len(chunker.chunks(Document(id="b", source="b", text="aa\nbb\naaa\ncc\n"))) == 2


# Names, links and what is no file.


def test_names_that_are_not_utf8_fail_alone(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("fine", "utf-8")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.txt")).write_text("odd", "utf-8")
    folder_ = Path(os.fsdecode(os.fsencode(tmp_path) + b"/c\xfe"))
    folder_.mkdir()
    (folder_ / "d.txt").write_text("odd", "utf-8")
    [fine], failures = folder(tmp_path)
    assert fine.id == "b.txt"
    assert [f.source for f in failures] == [r"a\xff.txt", r"c\xfe/d.txt"]
    assert all("not UTF-8" in f.error.what for f in failures)


def test_links_out_of_the_source_are_skipped(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "sub").mkdir(parents=True)
    other.mkdir()
    (other / "secret.txt").write_text("secret", "utf-8")
    (root / "sub" / "a.txt").write_text("fine", "utf-8")
    (root / "folder").symlink_to(other)
    (root / "inside.txt").symlink_to("sub/a.txt")
    (root / "link.txt").symlink_to("../other/secret.txt")
    (root / "up").symlink_to(tmp_path)
    for source in ("root", "root/*", "root/**", "root/**/*.txt"):
        found, failures = folder(tmp_path, source=source)
        assert [d.id for d in found] == ["root/inside.txt", "root/sub/a.txt"], source
        skipped = {f.source for f in failures if f.skipped}
        assert "root/link.txt" in skipped, source
        assert len(skipped) == len(failures)
        assert all("follow_links" in str(f.error) for f in failures)
    found, failures = folder(tmp_path, SourceOptions(follow_links=True), "root")
    assert [d.text for d in found] == ["secret", "fine", "secret", "fine"]
    assert not failures
    # what the user names is read
    [named], [] = folder(tmp_path, source="root/link.txt")
    assert named.text == "secret"


def test_links_that_double_the_folder_do_not_hang_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine", "utf-8")
    for name in "bcd":
        (tmp_path / name).symlink_to(".")
    found, failures = folder(tmp_path, source="**/*.txt")
    assert ([d.id for d in found], failures) == (["a.txt"], [])


def test_what_is_no_file_is_skipped_and_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine", "utf-8")
    os.mkfifo(tmp_path / "fifo.txt")
    for name, target in (
        ("device", "/dev/zero"),
        ("kernel", "/proc/kmsg"),
        ("version", "/proc/version"),
    ):
        (tmp_path / f"{name}.txt").symlink_to(target)
    with chdir(tmp_path), socket.socket(socket.AF_UNIX) as made:
        made.bind("socket.txt")  # the path of a socket is short
    [fine], failures = folder(tmp_path, SourceOptions(follow_links=True))
    assert fine.id == "a.txt"
    assert [f.source for f in failures if f.skipped] == [
        f"{name}.txt" for name in ("device", "fifo", "kernel", "socket", "version")
    ]


@contextmanager
def nested(root: Path, name: str, depth: int, last: str = "") -> Iterator[None]:
    """Folders in one another, made from inside: their path may be too long."""
    with chdir(root):
        for _ in range(depth):
            Path(name).mkdir()
            os.chdir(name)
        if last:
            Path(last).write_text("deep", "utf-8")
        os.chdir(root)
        yield
        for _ in range(depth):
            os.chdir(name)
        Path(last or "none").unlink(missing_ok=True)
        for _ in range(depth):
            os.chdir("..")
            Path(name).rmdir()


@pytest.mark.slow
def test_folders_nested_deeper_than_calls_are_walked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine", "utf-8")
    with nested(tmp_path, "d", 1050, "b.txt"):
        for source in (".", "**/*.txt"):
            found, failures = folder(tmp_path, source=source)
            assert sorted(d.text for d in found) == ["deep", "fine"]
            assert not failures


def test_a_path_longer_than_the_system_allows_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine", "utf-8")
    with nested(tmp_path, "d" * 200, 30):
        [fine], [failure] = folder(tmp_path)
    assert fine.text == "fine"
    assert "too long" in failure.error.what


# Passwords.


def test_a_pdf_with_an_owner_password_only_is_read() -> None:
    assert (
        "readable"
        in extract_bytes("a.pdf", make.pdf([make.lines("readable")], owner=b"rights"), SMALL).text
    )


def test_a_pdf_with_a_user_password_says_so() -> None:
    with pytest.raises(EncryptedSourceError, match="needs a password") as caught:
        extract_bytes("a.pdf", make.pdf([make.lines("x")], password=b"u", owner=b"o"), SMALL)
    assert caught.value.where == "a.pdf"
    assert "qpdf" in (caught.value.hint or "")
