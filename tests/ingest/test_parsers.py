"""Parsers of other packages, as a setting: chosen, checked, contained, compared."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_files import lines, pdf

from ragwright.core import (
    ConfigError,
    Document,
    EmptySourceError,
    MalformedSourceError,
    MissingExtraError,
    PluginError,
    RagwrightError,
    UnsupportedSourceError,
)
from ragwright.ingest import (
    Failure,
    Fetched,
    FileReader,
    IngestOptions,
    Parser,
    SourceOptions,
    extract_bytes,
    parser_version,
)

FILE = pdf([lines("Some text of a page"), lines("More text of another")])


class Upper(Parser):
    """A parser that works: a page of Markdown for each of two pages."""

    name = "upper"

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        assert data.startswith(b"%PDF")
        assert kind == "pdf"
        return ["# HEAD\n\nSOME TEXT", "| A | B |\n| - | - |\n| 1 | 2 |"]


class Moody(Parser):
    """A parser whose fate depends on the file's name."""

    name = "moody"

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        if "crash" in name:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in name:
            time.sleep(60)
        if "fail" in name:
            raise ValueError("a strange page")
        return {"empty": [" \n"], "none": [], "odd": "text"}.get(name.split(".")[0], ["fine"])


def by(parser: type[Parser], **more: float) -> SourceOptions:
    return SourceOptions(parser=f"{__name__}:{parser.__name__}", **more)  # type: ignore[arg-type]


def test_its_markdown_becomes_pages_sections_and_tables() -> None:
    extract = extract_bytes("a.pdf", FILE, by(Upper))
    assert extract.text == "# HEAD\n\nSOME TEXT\n\n| A | B |\n| - | - |\n| 1 | 2 |"
    assert [s.title for s in extract.sections] == ["HEAD"]
    assert [page.number for page in extract.pages] == [1, 2]
    assert extract.metadata["parser"] == f"{__name__}:Upper"
    assert extract.title == "HEAD"


def test_kinds_that_it_does_not_read_are_read_by_ragwright() -> None:
    assert extract_bytes("a.txt", b"plain", by(Upper)).text == "plain"
    assert extract_bytes("a.html", b"<p>marked up</p>", by(Upper)).text == "marked up"


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("crash.pdf", UnsupportedSourceError, "the parser '.*:Moody' crashed"),
        (
            "hang.pdf",
            UnsupportedSourceError,
            "the parser '.*:Moody' took longer than `max_seconds`",
        ),
        ("fail.pdf", MalformedSourceError, "the parser '.*:Moody' failed: ValueError: a strange"),
        ("empty.pdf", EmptySourceError, "the parser '.*:Moody' returned no text"),
        ("none.pdf", EmptySourceError, "the parser '.*:Moody' returned no text"),
        ("odd.pdf", MalformedSourceError, "the parser '.*:Moody' did not return a list of texts"),
    ],
)
def test_a_file_that_it_cannot_read_names_it(
    name: str, kind: type[RagwrightError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        extract_bytes(name, FILE, by(Moody, max_seconds=0.5))


def test_the_other_files_are_read(tmp_path: Path) -> None:
    for name in ("a", "crash", "fail", "z"):
        (tmp_path / f"{name}.pdf").write_bytes(FILE)

    def fetch(url: str) -> Fetched:
        raise AssertionError(url)

    items = list(FileReader(by(Moody), base=tmp_path).read(".", fetch))
    assert [i.id for i in items if isinstance(i, Document)] == ["a.pdf", "z.pdf"]
    assert [i.source for i in items if isinstance(i, Failure)] == ["crash.pdf", "fail.pdf"]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'markitdwn' is not a parser") as caught:
        SourceOptions(parser="markitdwn")
    assert "did you mean 'markitdown'" in str(caught.value.hint)
    with pytest.raises(ConfigError, match=r"ingest\.parser: 'theirs' is not a parser"):
        IngestOptions(parser="theirs")
    with pytest.raises(PluginError, match="is not a parser"):
        extract_bytes("a.pdf", FILE, SourceOptions(parser=f"{__name__}:by"))


@pytest.mark.parametrize("name", ["markitdown", "kreuzberg"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.metadata.Distribution.from_name

    def find_others(package: str) -> importlib.metadata.Distribution:
        if package == name:
            raise importlib.metadata.PackageNotFoundError(package)
        return find(package)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", find_others)
    with pytest.raises(MissingExtraError, match=f"`parser: {name}` needs the package") as caught:
        extract_bytes("a.pdf", FILE, SourceOptions(parser=name))
    assert str(caught.value.hint).startswith("pip install ")
    assert name in str(caught.value.hint)


def test_the_version_is_part_of_what_is_remembered() -> None:
    assert parser_version(SourceOptions()) == parser_version(SourceOptions(parser="ours")) == ""
    assert parser_version(by(Upper)) == f"{__name__}:Upper"
    assert parser_version(SourceOptions(parser="kreuzberg")).startswith("kreuzberg")
