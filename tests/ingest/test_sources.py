"""Sources go to the reader that accepts them; none costs another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright.core import BudgetStopped, Document, PluginError, SourceError, UnsupportedSourceError
from ragwright.ingest import (
    ArxivReader,
    BeirReader,
    Failure,
    FetchBytes,
    Fetched,
    FileReader,
    Reader,
    WebReader,
    WikipediaReader,
    default_readers,
    load_reader,
    read_sources,
)


def offline(url: str) -> Fetched:
    raise SourceError("no network here", where=url)


class LogReader(Reader):
    """An own reader, as a stranger writes one."""

    name = "log"

    def accepts(self, source: str) -> bool:
        return source.startswith("log:")

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield Document(id=source, source=source, text="first")
        if source == "log:broken":
            raise KeyError("level")
        if source == "log:stopped":
            raise BudgetStopped("the budget is spent")
        yield Document(id=source + "#2", source=source, text="second")


def took(source: str, tmp_path: Path) -> type[Reader]:
    return type(next(r for r in default_readers(base=tmp_path) if r.accepts(source)))


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("manual.md", FileReader),
        ("manuals/*.pdf", FileReader),
        ("https://example.org/a.pdf", WebReader),
        ("https://fr.wikipedia.org/wiki/Pompe", WikipediaReader),
        ("wikipedia:Pump", WikipediaReader),
        ("https://arxiv.org/abs/2401.01234", ArxivReader),
        ("arxiv:2401.01234", ArxivReader),
        ("beir:scifact", BeirReader),
    ],
)
def test_each_form_has_its_reader(source: str, kind: type[Reader], tmp_path: Path) -> None:
    assert took(source, tmp_path) is kind


def test_documents_and_failures_come_with_their_source(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText of a.", "utf-8")
    sources = ["none.md", "a.md", "https://example.org/", "gopher:hole", "log:x"]
    readers = (LogReader(), *default_readers(base=tmp_path))
    found = list(read_sources(sources, readers, offline))
    assert [source for source, _ in found] == [*sources, "log:x"]
    kinds = [type(item) for _, item in found]
    assert kinds == [Failure, Document, Failure, Failure, Document, Document]
    unknown = found[3][1]
    assert isinstance(unknown, Failure)
    assert isinstance(unknown.error, UnsupportedSourceError)
    assert "wikipedia:" in (unknown.error.hint or "")


def test_a_reader_that_breaks_costs_only_its_source() -> None:
    found = list(read_sources(["log:broken", "log:x"], [LogReader()], offline))
    assert [type(item) for _, item in found] == [Document, Failure, Document, Document]
    failure = found[1][1]
    assert isinstance(failure, Failure)
    assert "KeyError" in str(failure.error)


def test_a_stop_stops() -> None:
    with pytest.raises(BudgetStopped):
        list(read_sources(["log:stopped"], [LogReader()], offline))


def test_reading_is_lazy() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "log:x"

    assert next(read_sources(endless(), [LogReader()], offline))[0] == "log:x"


def test_an_own_reader_is_loaded_by_address(tmp_path: Path) -> None:
    found = list(read_sources(["any"], [], offline, reader=f"{__name__}:LogReader"))
    assert len(found) == 2
    for address in (f"{__name__}:offline", "no_such_module:Reader", "nothing"):
        with pytest.raises(PluginError):
            load_reader(address)
        with pytest.raises(PluginError):
            read_sources([], [], offline, reader=address)
