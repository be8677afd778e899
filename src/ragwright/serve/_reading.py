"""Sources as a caller may see them: texts, spans, passages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..answer import corpus_ids
from ..core import (
    Document,
    Filter,
    FilterError,
    Hit,
    RagwrightError,
    Span,
    is_readable,
)
from ..flow import Flow, lookup
from ..index import View
from ..retrieve import Target
from ..workbench import AskOptions, Workbench
from ._identity import Identity
from ._service import Service


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


async def reads_all(service: Service, identity: Identity) -> bool:
    """True if the rights of an identity hide no chunk of the index; False without an index."""
    try:
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            asking = opened.asking(identity)
            if not asking.filters:
                return True
            count = partial(_hides_none, asking=asking)
            snapshot = _target_of(asking).snapshot
            hides_none, _ = await asyncio.to_thread(bench.project.views.answer, snapshot, count)
            return hides_none
    except RagwrightError:  # nothing is searched, so nobody knows whose the documents are
        return False


def _hides_none(view: View, asking: AskOptions) -> bool:
    try:
        return view.count(asking.filters) == view.count()
    except FilterError:  # no chunk has what the rights ask for
        return False


def _visible_chunks(asking: AskOptions, filters: Sequence[Filter]) -> Flow[tuple[Hit, ...]]:
    """Every chunk that meets the filters, as hits."""
    target = _target_of(asking)
    ids, _ = yield from corpus_ids(target, filters)
    if not ids:
        return ()
    return (yield from lookup(target.snapshot, ids)).hits


def _target_of(asking: AskOptions) -> Target:
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
