"""Which section a chunk grows to, and from where its pages count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ragwright.core import Chunk, Document, Filter, Page, RetrieveError, Section, Span
from ragwright.flow import Lookup, LookupReply
from ragwright.index import IndexedDocument, IndexSpec, LookupHandler, SqliteStore, Views, ViewState
from ragwright.models import Analyzer

PAIR = IndexSpec("whole", Analyzer().spec)
TEXT = "# Pump\n\n## Seal\nGrease it.\n  \nTwice.\n\n## Wheel\nTurn it.\n"
SEAL, WHEEL, TWICE = (TEXT.index(word) for word in ("## Seal", "## Wheel", "Twice"))
DOCUMENT = Document(
    "d",
    "mem:d",
    TEXT,
    pages=(Page(1, Span(0, TWICE)), Page(2, Span(TWICE, len(TEXT)))),
    sections=(
        Section("Pump", 1, Span(0, len(TEXT))),
        Section("Seal", 2, Span(SEAL, WHEEL)),
        Section("Wheel", 2, Span(WHEEL, len(TEXT))),
    ),
)


def chunk(ordinal: int, start: int, end: int, headings: tuple[str, ...], page: int) -> Chunk:
    text = TEXT[start:end]
    return Chunk(f"d:{start}-{end}", "d", ordinal, Span(start, end), text, page, headings)


CHUNKS = (
    chunk(0, 0, TWICE - 4, ("Pump", "Seal"), 1),
    chunk(1, TWICE - 3, WHEEL, ("Pump", "Seal"), 2),
    chunk(2, WHEEL, len(TEXT), ("Pump", "Wheel"), 2),
)


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[tuple[LookupHandler, str]]:
    store = SqliteStore(tmp_path / "store.sqlite")
    store.upsert(PAIR, [IndexedDocument(DOCUMENT, CHUNKS)])
    yield LookupHandler(Views(store)), store.snapshot(PAIR)
    store.close()


def test_a_chunk_that_opens_with_headings_grows_to_the_last_of_them(
    handler: tuple[LookupHandler, str],
) -> None:
    look, snapshot = handler
    asked = Lookup(snapshot, tuple(c.id for c in CHUNKS), expand="section")
    reply = look.carry([asked])[0]
    assert isinstance(reply, LookupReply)
    spans = [(hit.start, hit.end) for hit in reply.hits]
    assert spans == [(0, WHEEL), (SEAL, WHEEL), (WHEEL, len(TEXT))]
    assert all(hit.text == TEXT[hit.start : hit.end] for hit in reply.hits)


def test_pages_count_from_the_first_character_of_the_grown_text(
    handler: tuple[LookupHandler, str],
) -> None:
    look, snapshot = handler
    alone, grown = (
        look.carry([Lookup(snapshot, (CHUNKS[1].id,), "neighbours", reach)])[0] for reach in (0, 1)
    )
    assert isinstance(alone, LookupReply)
    assert isinstance(grown, LookupReply)
    assert (alone.hits[0].page, alone.hits[0].pages) == (2, ())
    assert (grown.hits[0].page, grown.hits[0].pages) == (1, ((TWICE, 2),))
    assert (grown.hits[0].start, grown.hits[0].end) == (0, len(TEXT))
    assert grown.hits[0].headings == ("Pump", "Seal")


def test_a_negative_reach_is_refused(handler: tuple[LookupHandler, str]) -> None:
    look, snapshot = handler
    reply = look.carry([Lookup(snapshot, (CHUNKS[0].id,), "neighbours", -1)])[0]
    assert isinstance(reply, RetrieveError)


def test_surroundings_stop_at_a_chunk_that_misses_a_hard_filter(
    handler: tuple[LookupHandler, str],
) -> None:
    look, snapshot = handler
    for condition in (Filter("page", (2,)), Filter("page", (1,), exclude=True)):
        asked = [
            Lookup(snapshot, (CHUNKS[1].id,), expand=how, reach=2, filters=(condition,))
            for how in ("neighbours", "section")
        ]
        replies = look.carry(asked)
        spans = [(r.hits[0].start, r.hits[0].end) for r in replies if isinstance(r, LookupReply)]
        assert spans == [(TWICE - 4, len(TEXT)), (TWICE - 4, WHEEL)]


def test_surroundings_without_barred_chunks_are_those_without_filters(
    handler: tuple[LookupHandler, str],
) -> None:
    look, snapshot = handler
    filters = (Filter("document_id", ("d",)),)
    for how in ("neighbours", "section"):
        plain = look.carry([Lookup(snapshot, (CHUNKS[1].id,), expand=how)])[0]
        barred = look.carry([Lookup(snapshot, (CHUNKS[1].id,), expand=how, filters=filters)])[0]
        assert isinstance(plain, LookupReply)
        assert isinstance(barred, LookupReply)
        assert plain.hits == barred.hits


def test_many_hits_ask_for_their_conditions_once(
    handler: tuple[LookupHandler, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One mask for all hits, and none but that of the search, which is remembered."""
    asked: list[object] = []
    masks = ViewState.masks

    def counted(self: ViewState, filters: Sequence[Filter]) -> object:
        asked.append(tuple(filters))
        return masks(self, filters)

    monkeypatch.setattr(ViewState, "masks", counted)
    look, snapshot = handler
    filters = (Filter("page", (1, 2)),)
    names = tuple(one.id for one in CHUNKS)
    look.carry([Lookup(snapshot, names, expand="neighbours", reach=1, filters=filters)])
    assert asked == [filters]
