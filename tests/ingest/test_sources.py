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
    catch_failures,
    default_readers,
    failure_lines,
    load_reader,
    pick_reader,
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


def test_a_source_of_no_known_form_is_refused_with_the_forms(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSourceError) as told:
        pick_reader("gopher:hole", default_readers(base=tmp_path))
    assert "wikipedia:" in (told.value.hint or "")
    assert isinstance(pick_reader("log:x", [LogReader(), *default_readers()]), LogReader)


def read(source: str) -> list[Document | Failure]:
    reader = LogReader()
    return list(catch_failures(reader.read(source, offline), source, reader))


def test_a_reader_that_breaks_costs_only_its_source() -> None:
    first, failure = read("log:broken")
    assert isinstance(first, Document)
    assert isinstance(failure, Failure)
    assert "KeyError" in str(failure.error)


def test_a_stop_stops() -> None:
    with pytest.raises(BudgetStopped):
        read("log:stopped")


def test_an_own_reader_is_loaded_by_address() -> None:
    assert isinstance(load_reader(f"{__name__}:LogReader"), LogReader)
    for address in (f"{__name__}:offline", "no_such_module:Reader", "nothing"):
        with pytest.raises(PluginError):
            load_reader(address)


def test_files_with_one_cause_are_one_entry() -> None:
    def failed(name: str, what: str, *, warning: bool = False) -> Failure:
        return Failure(name, SourceError(what, where=name, hint="mend it"), warning=warning)

    lines = failure_lines(
        [
            *(failed(f"{n}.png", "no OCR") for n in range(7)),
            failed("a.xlsx", "2 formulas: never computed", warning=True),
        ]
    )
    assert "\n".join(lines) == (
        "failed: 7 files: no OCR\n  where: 0.png, 1.png, 2.png, 3.png, 4.png and 2 more\n"
        "  do: mend it\n"
        "warning: a.xlsx\n  2 formulas: never computed\n    where: a.xlsx\n    do: mend it"
    )
