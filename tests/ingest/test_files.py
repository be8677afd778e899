"""Folders: what is found in them, in which order, and what is said of what is not read."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from made_files import pdf_of
from one_file import read_folder

from ragwright.core import MissingExtraError, SourceError


def write(folder: Path, *names: str) -> Path:
    """Files whose text says their name, with the folders that they need."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(f"text of {name}"))
    return folder


def found(folder: Path, source: str = ".", **settings: object) -> list[str]:
    return [document.id for document in read_folder(folder, source, **settings)[0]]


def test_folders_are_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a/z.md", "a/b/c.txt", ".hidden", ".ragwright/x.txt", "c.log")
    documents, failures = read_folder(tmp_path)
    assert [d.id for d in documents] == ["a/b/c.txt", "a/z.md", "b.txt", "c.log"]
    assert not failures
    assert found(tmp_path, include=("*.txt",), exclude=("a/b",)) == ["b.txt"]
    assert found(tmp_path, include=("**/*.md",)) == ["a/z.md"]
    assert found(tmp_path, "a/*.md") == ["a/z.md"]
    inner = tmp_path / "a"
    for source in ("z.md", str(inner / "z.md"), (inner / "z.md").as_uri()):
        assert found(inner, source) == ["z.md"], "ids are relative to the base"
    assert found(inner, "../b.txt") == ["../b.txt"]


def test_bad_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    write(tmp_path, "b.txt", "c.txt").joinpath("b.txt").write_bytes(b"")
    (tmp_path / "d.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "e.txt")
    documents, failures = read_folder(tmp_path)
    assert [d.id for d in documents] == ["c.txt"]
    assert [f.source for f in failures] == ["a.pdf", "b.txt", "d.txt", "e.txt"]
    assert all(f.error.hint for f in failures)


def test_what_is_no_file_is_skipped_and_does_not_block(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "fifo.txt")
    links = {"device": "/dev/zero", "kernel": "/proc/kmsg", "version": "/proc/version"}
    for name, target in links.items():
        (tmp_path / f"{name}.txt").symlink_to(target)
    with chdir(tmp_path), socket.socket(socket.AF_UNIX) as made:
        made.bind("socket.txt")  # the path of a socket is short
    [fine], failures = read_folder(tmp_path)
    assert fine.id == "a.txt"
    assert [f.source for f in failures if f.skipped] == [
        f"{name}.txt" for name in ("device", "fifo", "kernel", "socket", "version")
    ]


def test_links_that_loop_or_double_a_folder_end(tmp_path: Path) -> None:
    write(tmp_path, "root/sub/a.txt", "beside/b.txt")
    root = tmp_path / "root"
    (root / "sub" / "loop").symlink_to(root)
    (root / "linked").symlink_to(tmp_path / "beside")
    (tmp_path / "beside" / "back").symlink_to(root)
    (root / "self").symlink_to("self")
    documents, failures = read_folder(tmp_path, "root")
    assert [d.id for d in documents] == ["root/sub/a.txt"]
    named = [(f.source, f.skipped) for f in failures]
    assert named == [("root/linked", True), ("root/self", False)]
    double = write(tmp_path / "double", "a.txt")
    for name in "bcd":
        (double / name).symlink_to(".")
    documents, failures = read_folder(double, "**/*.txt")
    assert ([d.id for d in documents], failures) == (["a.txt"], [])


def test_links_out_of_the_source_are_skipped(tmp_path: Path) -> None:
    root = write(tmp_path, "other/secret.txt", "root/sub/a.txt") / "root"
    (root / "folder").symlink_to(tmp_path / "other")
    (root / "inside.txt").symlink_to("sub/a.txt")
    (root / "link.txt").symlink_to("../other/secret.txt")
    (root / "up").symlink_to(tmp_path)
    for source in ("root", "root/*", "root/**", "root/**/*.txt"):
        documents, failures = read_folder(tmp_path, source)
        assert [d.id for d in documents] == ["root/inside.txt", "root/sub/a.txt"], source
        skipped = {f.source for f in failures if f.skipped}
        assert "root/link.txt" in skipped, source
        assert len(skipped) == len(failures)
        assert all("as a source" in str(f.error) for f in failures)
    # what the user names is read
    [named], [] = read_folder(tmp_path, "root/link.txt")
    assert named.text == "text of other/secret.txt"


def test_missing_empty_large_and_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, (missing,) = read_folder(tmp_path, "nothing.pdf")
    assert type(missing.error) is SourceError
    assert "nothing.pdf" in str(missing.error)
    _, (empty,) = read_folder(tmp_path)
    assert empty.skipped
    assert "empty" in empty.error.what
    write(tmp_path, "a.txt")
    _, (unmatched,) = read_folder(tmp_path, include=("*.md",))
    assert not unmatched.skipped
    assert "no file" in unmatched.error.what
    _, (large,) = read_folder(tmp_path, max_bytes=12)
    assert "max_bytes" in str(large.error)

    def forbid(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", forbid)  # the tests may run as root
    _, (forbidden,) = read_folder(tmp_path)
    assert "Permission denied" in forbidden.error.what
    assert "right" in (forbidden.error.hint or "")


def test_nothing_of_the_file_system_gets_into_the_content(tmp_path: Path) -> None:
    """A copy with another date is the same document: times of files are not dates of texts."""
    (before,), _ = read_folder(write(tmp_path, "a.txt"))
    os.utime(tmp_path / "a.txt", (1, 1))
    (after,), _ = read_folder(tmp_path)
    assert before.content_hash() == after.content_hash()
    assert not before.modified


def test_locks_backups_and_packages_are_named_and_not_read(tmp_path: Path) -> None:
    left = {"~$a.docx", "a.md~", "#a.md#", "old.bak", "node_modules"}
    write(tmp_path, "a.md", *left - {"node_modules"}, "node_modules/x/readme.md")
    documents, failures = read_folder(tmp_path)
    assert [document.id for document in documents] == ["a.md"]
    assert all(failure.skipped for failure in failures)
    assert {failure.source for failure in failures} == left
    assert found(tmp_path, include=("*.bak",)) == ["old.bak"]


def test_names_that_are_not_utf8_fail_alone(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", os.fsdecode(b"a\xff.txt"), os.fsdecode(b"c\xfe/d.txt"))
    [fine], failures = read_folder(tmp_path)
    assert fine.id == "b.txt"
    assert [f.source for f in failures] == [r"a\xff.txt", r"c\xfe/d.txt"]
    assert all("not UTF-8" in f.error.what for f in failures)


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
def test_folders_nested_deeper_than_calls_or_paths_allow(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    with nested(tmp_path, "d", 1050, "b.txt"):
        for source in (".", "**/*.txt"):
            documents, failures = read_folder(tmp_path, source)
            assert sorted(d.text for d in documents) == ["deep", "text of a.txt"]
            assert not failures
    with nested(tmp_path, "d" * 200, 30):
        [fine], [failure] = read_folder(tmp_path)
    assert fine.id == "a.txt"
    assert "too long" in failure.error.what


@pytest.mark.slow
def test_a_missing_library_is_named_with_the_way_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken away from processes that read documents as well."""
    packages = write(tmp_path, "b.txt", "packages/pypdfium2.py") / "packages"
    (packages / "pypdfium2.py").write_text("raise ModuleNotFoundError(name=__name__)", "utf-8")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, "pypdfium2", raising=False)
    (tmp_path / "a.pdf").write_bytes(pdf_of("x"))
    documents, (failure,) = read_folder(tmp_path, exclude=("packages",))
    assert [d.id for d in documents] == ["b.txt"]
    assert isinstance(failure.error, MissingExtraError)
    assert "ragwright[docs]" in (failure.error.hint or "")
