"""Sources as a caller may see them: lists, texts, spans."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..answer import corpus_ids
from ..core import Document, Filter, FilterError, Span
from ..flow import Flow, Search, SearchReply, lookup, send

if TYPE_CHECKING:
    from ..core import Hit
    from ..retrieve import Target
    from ..workbench import Asking, Workbench
    from ._service import Opened

_PAGE = 2000


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A document, and the spans of it that a caller may see, in text order, apart."""

    document: Document
    spans: tuple[Span, ...]

    @property
    def whole(self) -> bool:
        """True where all of it may be seen."""
        return self.spans == (Span(0, len(self.document.text)),)

    def shows(self, start: int, end: int) -> bool:
        """True where a span may be seen as a whole."""
        return any(span.start <= start and end <= span.end for span in self.spans)

    def text(self, start: int, end: int) -> str:
        """What may be seen of a span; gaps are left out."""
        seen = (
            self.document.text[max(start, span.start) : min(end, span.end)]
            for span in self.spans
            if span.start < end and start < span.end
        )
        return "\n\n".join(seen)


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A document in a list."""

    id: str
    title: str
    source: str


async def visible_source(
    opened: Opened, bench: Workbench, asking: Asking, document_id: str
) -> VisibleSource | None:
    """A document of the index as a caller may see it; None where nothing of it may be."""
    project = bench.project
    filters = (*project.settings.retrieve.filters, *asking.filters)
    wanted = (*filters, Filter("document_id", (document_id,)))
    try:
        hits = await project.runner.arun(_chunks(opened.searched(), wanted), scope=asking.scope)
    except FilterError:  # no chunk that may be seen is of this document
        return None
    document = await asyncio.to_thread(project.store.document, document_id) if hits else None
    if document is None:
        return None
    spans = _merged(hits) if filters else (Span(0, len(document.text)),)
    return VisibleSource(document, spans)


async def visible_chunks(
    opened: Opened, bench: Workbench, asking: Asking, document_id: str
) -> tuple[Span, ...]:
    """Spans of the chunks of a document that a caller may see."""
    filters = (*bench.project.settings.retrieve.filters, *asking.filters)
    wanted = (*filters, Filter("document_id", (document_id,)))
    hits = await bench.project.runner.arun(_chunks(opened.searched(), wanted), scope=asking.scope)
    return tuple(Span(hit.start, hit.end) for hit in hits)


async def list_sources(
    opened: Opened, bench: Workbench, asking: Asking, after: str, most: int
) -> tuple[list[ListedSource], int | None]:
    """Documents by id, behind one of them; how many there are where that costs nothing."""
    project = bench.project
    filters = (*project.settings.retrieve.filters, *asking.filters)
    if not filters:
        return await asyncio.to_thread(_all_sources, bench, after, most)
    snapshot = opened.searched().snapshot
    found = await project.runner.arun(
        _documents(snapshot, filters, after, most), scope=asking.scope
    )
    return [ListedSource(hit.document_id, hit.title, hit.source) for hit in found], None


def _all_sources(bench: Workbench, after: str, most: int) -> tuple[list[ListedSource], int]:
    store = bench.project.store
    sources = store.sources(bench.project.pair)
    found = []
    for name in sorted(name for name in sources if name > after)[:most]:
        document = store.document(name)
        title = "" if document is None else document.title
        found.append(ListedSource(name, title, sources[name]))
    return found, len(sources)


def _chunks(target: Target, filters: Sequence[Filter]) -> Flow[tuple[Hit, ...]]:
    """Every chunk that meets the filters, as hits."""
    ids, _ = yield from corpus_ids(target, filters)
    if not ids:
        return ()
    return (yield from lookup(target.snapshot, ids)).hits


def _documents(
    snapshot: str, filters: Sequence[Filter], after: str, most: int
) -> Flow[tuple[Hit, ...]]:
    """The first chunk of each document behind ``after`` that has one that meets the filters."""
    firsts: dict[str, Hit] = {}
    last = ""
    while len(firsts) < most:
        reply = yield from send(
            Search(snapshot, "all", _PAGE, filters=tuple(filters), after=last), SearchReply
        )
        ids = tuple(key for key, _ in reply.candidates)
        if ids:
            looked = yield from lookup(snapshot, ids)
            for hit in looked.hits:
                if hit.document_id > after:
                    firsts.setdefault(hit.document_id, hit)
        if len(ids) < _PAGE:
            break
        last = ids[-1]
    return tuple(firsts[name] for name in sorted(firsts)[:most])


def _merged(hits: Iterable[Hit]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        if spans and hit.start <= spans[-1].end:
            spans[-1] = replace(spans[-1], end=max(spans[-1].end, hit.end))
        else:
            spans.append(Span(hit.start, hit.end))
    return tuple(spans)
