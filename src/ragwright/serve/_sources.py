"""The documents of an index as a caller may see them: their list, and the text of one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..answer import corpus_ids
from ..core import GROUPS, Document, Filter, FilterError, Hit, Span, is_readable
from ..flow import Flow, lookup
from ..retrieve import Target
from ..workbench import AskOptions, Workbench

_AT_ONCE = 500
"""Chunks looked up by one request."""

_KEPT = 8
"""Lists that are kept: states of indexes, times rights of callers."""


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A document in a list.

    Attributes:
        id: Its id.
        title: Its title.
        source: Its path or address.
        chunks: Chunks of it that may be seen.
        groups: Groups of readers that it is for; to a reader those that it belongs to itself.
    """

    id: str
    title: str
    source: str
    chunks: int
    groups: tuple[str, ...]


class Catalogues:
    """Lists of documents by state of the index and rights."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[ListedSource, ...]] = {}

    async def of(self, bench: Workbench, asking: AskOptions) -> tuple[ListedSource, ...]:
        """All documents that a caller may see, by id."""
        project, target = bench.project, target_of(asking)
        filters = asking.searching(project.settings.retrieve).filters
        key = (target.snapshot, repr(filters))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            try:
                flow = _list_sources(target, filters)
                self._kept[key] = await project.runner.arun(flow, scope=asking.scope)
            except FilterError:  # no document has what the rights ask for
                return ()
        return self._kept[key]


def _list_sources(target: Target, filters: Sequence[Filter]) -> Flow[tuple[ListedSource, ...]]:
    """The documents with a chunk that meets the filters, by id."""
    right = next((condition for condition in filters if condition.missing is not None), None)
    ids, _ = yield from corpus_ids(target, filters)
    # the id of a chunk begins with that of its document
    counts = Counter(chunk.rpartition(":")[0] for chunk in ids)
    wanted = list({chunk.rpartition(":")[0]: chunk for chunk in reversed(ids)}.values())
    sources: list[ListedSource] = []
    for at in range(0, len(wanted), _AT_ONCE):
        for hit in (yield from lookup(target.snapshot, wanted[at : at + _AT_ONCE])).hits:
            named = hit.metadata.get(GROUPS, ())
            groups = named if isinstance(named, tuple) else (str(named),)
            if right is not None:  # readers do not learn which other groups may read it
                groups = tuple(group for group in groups if group in right.values)
            chunks = counts[hit.document_id]
            sources.append(ListedSource(hit.document_id, hit.title, hit.source, chunks, groups))
    return tuple(sorted(sources, key=lambda source: source.id))


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


async def visible_source(
    bench: Workbench, asking: AskOptions, document_id: str
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


def _visible_chunks(asking: AskOptions, filters: Sequence[Filter]) -> Flow[tuple[Hit, ...]]:
    """Every chunk that meets the filters, as hits."""
    target = target_of(asking)
    ids, _ = yield from corpus_ids(target, filters)
    if not ids:
        return ()
    return (yield from lookup(target.snapshot, ids)).hits


def target_of(asking: AskOptions) -> Target:
    """The index that a request searches."""
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
