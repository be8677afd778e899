"""Sources as a caller may see them: lists, texts, spans."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..answer import corpus_ids
from ..core import Document, Filter, FilterError, Span, is_readable
from ..flow import Flow, lookup

if TYPE_CHECKING:
    from ..core import Hit
    from ..retrieve import Target
    from ..workbench import Asking, Workbench

_PAGE = 500


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A document, and the spans of it and of its chunks that a caller may see, in text order."""

    document: Document
    spans: tuple[Span, ...]
    chunks: tuple[Span, ...]

    @property
    def whole(self) -> bool:
        """True where all of it may be seen."""
        return self.spans == (Span(0, len(self.document.text)),)

    def shows(self, start: int, end: int) -> bool:
        """True where a span may be seen as a whole."""
        return any(span.start <= start and end <= span.end for span in self.spans)

    def text(self, start: int, end: int) -> str:
        """Return the visible text of a span; gaps are left out."""
        parts = (
            self.document.text[max(start, span.start) : min(end, span.end)]
            for span in self.spans
            if span.start < end and start < span.end
        )
        return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A document in a list."""

    id: str
    title: str
    source: str


async def visible_source(
    bench: Workbench, asking: Asking, document_id: str
) -> VisibleSource | None:
    """A document of the index as a caller may see it; None where nothing of it may be."""
    project = bench.project
    filters = asking.searching(project.settings.retrieve).filters
    wanted = (*filters, Filter("document_id", (document_id,)))
    try:
        hits = await project.runner.arun(_visible_chunks(asking, wanted), scope=asking.scope)
    except FilterError:  # no chunk that may be seen is of this document
        return None
    document = await asyncio.to_thread(project.store.document, document_id) if hits else None
    # An ingest under way may have closed it: the text is its newest, the search is of before.
    if document is None or not is_readable(document, filters):
        return None
    parted = any(condition.missing is None for condition in filters)  # groups are of documents
    spans = _merged_spans(hits) if parted else (Span(0, len(document.text)),)
    return VisibleSource(document, spans, tuple(Span(hit.start, hit.end) for hit in hits))


async def all_visible(bench: Workbench, asking: Asking, documents: Sequence[str]) -> bool:
    """True if a caller may see each of some documents, or its rights narrow nothing."""
    if not any(condition.missing is not None for condition in asking.filters):
        return True
    for name in documents:
        if await visible_source(bench, asking, name) is None:
            return False
    return True


async def list_sources(
    bench: Workbench, asking: Asking, after: str, most: int, containing: str = ""
) -> tuple[list[ListedSource], int | None]:
    """Documents by id, behind one of them; how many there are where that costs nothing.

    ``containing`` is text that their ids contain, ignoring case.
    """
    project = bench.project
    filters = asking.searching(project.settings.retrieve).filters
    if not filters:
        return await asyncio.to_thread(_all_sources, bench, after, most, containing)
    sources = await project.runner.arun(
        _visible_documents(asking, filters, after, most, containing), scope=asking.scope
    )
    return sources, None


def _all_sources(
    bench: Workbench, after: str, most: int, containing: str
) -> tuple[list[ListedSource], int]:
    store = bench.project.store
    wanted = containing.casefold()
    names = sorted(n for n in store.sources(bench.project.pair) if wanted in n.casefold())
    behind = names[bisect_right(names, after) :][:most]
    return [_listed_source(store.document(name), name) for name in behind], len(names)


def _listed_source(document: Document | None, name: str) -> ListedSource:
    if document is None:  # removed since it was listed
        return ListedSource(name, "", name)
    return ListedSource(name, document.title, document.source)


def _visible_chunks(asking: Asking, filters: Sequence[Filter]) -> Flow[tuple[Hit, ...]]:
    """Every chunk that meets the filters, as hits."""
    target = _target_of(asking)
    ids, _ = yield from corpus_ids(target, filters)
    if not ids:
        return ()
    return (yield from lookup(target.snapshot, ids)).hits


def _visible_documents(
    asking: Asking, filters: Sequence[Filter], after: str, most: int, containing: str
) -> Flow[list[ListedSource]]:
    """The documents behind ``after`` that have a chunk that meets the filters."""
    target = _target_of(asking)
    ids, _ = yield from corpus_ids(target, filters)
    low, high = 0, len(ids)
    while after and low < high:  # chunks are in the order of their documents' ids
        middle = (low + high) // 2
        [hit] = (yield from lookup(target.snapshot, ids[middle : middle + 1])).hits
        low, high = (middle + 1, high) if hit.document_id <= after else (low, middle)
    sources: dict[str, ListedSource] = {}
    for at in range(low, len(ids), _PAGE):
        for hit in (yield from lookup(target.snapshot, ids[at : at + _PAGE])).hits:
            name = hit.document_id
            if containing.casefold() not in name.casefold():
                continue
            sources.setdefault(name, ListedSource(name, hit.title, hit.source))
        if len(sources) > most:
            break
    return list(sources.values())[:most]


def _target_of(asking: Asking) -> Target:
    assert asking.target is not None, "a service says what is searched"
    return asking.target


def _merged_spans(hits: Iterable[Hit]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        if spans and hit.start <= spans[-1].end:
            spans[-1] = replace(spans[-1], end=max(spans[-1].end, hit.end))
        else:
            spans.append(Span(hit.start, hit.end))
    return tuple(spans)
