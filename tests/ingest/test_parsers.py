"""Parsers of other packages, as a setting: chosen, checked, contained, compared."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_files import pdf_of
from one_file import read, read_folder

from ragwright.core import (
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    MissingExtraError,
    PluginError,
    RagwrightError,
    UnsupportedSourceError,
)
from ragwright.ingest import Parser, SourceOptions, parser_version

FILE = pdf_of("Some text of a page", "More text of another")


class Upper(Parser):
    """A parser that works: a page of Markdown for each of two pages."""

    name = "upper"

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        assert data.startswith(b"%PDF")
        assert kind == "pdf"
        return ["# HEAD\n\nSOME TEXT", "| A | B |\n| - | - |\n| 1 | 2 |"]


class Moody(Parser):
    name = "moody"

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        if "crash" in name:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in name:
            time.sleep(60)
        if "fail" in name:
            raise ValueError("a strange page")
        return {"empty": [" \n"], "none": [], "odd": "text"}.get(name.split(".")[0], ["fine"])


UPPER, MOODY = f"{__name__}:Upper", f"{__name__}:Moody"


def test_its_markdown_becomes_pages_and_kinds_that_it_does_not_read_are_ours() -> None:
    extract = read("a.pdf", FILE, parser=UPPER)
    assert extract.text == "# HEAD\n\nSOME TEXT\n\n| A | B |\n| - | - |\n| 1 | 2 |"
    assert [s.title for s in extract.sections] == ["HEAD"]
    assert [page.number for page in extract.pages] == [1, 2]
    assert (extract.metadata["parser"], extract.title) == (UPPER, "HEAD")
    assert read("a.txt", "plain", parser=UPPER).text == "plain"
    assert read("a.html", "<p>marked up</p>", parser=UPPER).text == "marked up"
    assert parser_version(SourceOptions()) == parser_version(SourceOptions(parser="ours")) == ""
    assert parser_version(SourceOptions(parser=UPPER)) == UPPER
    assert parser_version(SourceOptions(parser="kreuzberg")).startswith("kreuzberg")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("crash", UnsupportedSourceError, "crashed"),
        ("hang", UnsupportedSourceError, "took longer than `max_seconds`"),
        ("fail", MalformedSourceError, "failed: ValueError: a strange"),
        ("empty", EmptySourceError, "returned no text"),
        ("none", EmptySourceError, "returned no text"),
        ("odd", MalformedSourceError, "did not return a list of texts"),
    ],
)
def test_a_file_that_it_cannot_read_names_it_and_the_next_is_read(
    name: str, kind: type[RagwrightError], message: str, tmp_path: Path
) -> None:
    for file in (name, "z"):
        (tmp_path / f"{file}.pdf").write_bytes(FILE)
    [found], [failed] = read_folder(tmp_path, parser=MOODY, max_seconds=0.5)
    assert (found.id, failed.source) == ("z.pdf", f"{name}.pdf")
    assert type(failed.error) is kind
    assert f"the parser {MOODY!r} {message}" in failed.error.what


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'markitdwn' is not a parser") as caught:
        SourceOptions(parser="markitdwn")
    assert "did you mean markitdown" in str(caught.value.hint)
    with pytest.raises(PluginError, match="is not a parser"):
        read("a.pdf", FILE, parser=f"{__name__}:pdf_of")


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
        read("a.pdf", FILE, parser=name)
    assert str(caught.value.hint).startswith("pip install ")
    assert name in str(caught.value.hint)
