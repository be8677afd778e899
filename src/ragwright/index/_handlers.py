"""Handlers of searches and look-ups, and chunks with the text of neighbours or of their section.

A view holds only the texts of chunks, so text between them comes from the stored document. That may
be a newer version than the view's: unless the view's pieces are at their places in it, a chunk is
returned without surroundings, with a note.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from ..core import Document, Filter, Hit, RagwrightError, RetrieveError, Span
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._catalog import Views
from ._store import Matrix, View

Documents = Callable[[str], Document | None]

ReplyT = TypeVar("ReplyT", bound=SearchReply | LookupReply)

_WHOLE = 2**31
"""A reach larger than any document."""


def look_up(view: View, request: Lookup, documents: Documents) -> LookupReply:
    """The chunks of a request, with surroundings and vectors if requested.

    Args:
        view: View of the request's snapshot.
        request: What to look up.
        documents: Gives a stored document by id.

    Raises:
        RetrieveError: An id is not in the snapshot, or ``reach`` is negative.
    """
    if request.reach < 0:
        raise RetrieveError(f"the reach is {request.reach} chunks", hint="give 0 or more")
    hits = view.lookup(request.chunk_ids)
    notes: list[str] = []
    if request.expand:
        hits, notes = _with_surroundings(view, request, hits, documents)
    vectors = view.vectors(request.chunk_ids) if request.vectors else None
    return LookupReply(hits, vectors, tuple(notes))


def _with_surroundings(
    view: View, request: Lookup, hits: Sequence[Hit], documents: Documents
) -> tuple[tuple[Hit, ...], list[str]]:
    documents_by_id: dict[str, Document | None] = {}
    barred = _barred_chunks(view, hits, request.filters) if request.filters else {}
    grown: list[Hit] = []
    changed: list[str] = []
    for hit in hits:
        if hit.document_id not in documents_by_id:
            documents_by_id[hit.document_id] = documents(hit.document_id)
        document = documents_by_id[hit.document_id]
        pieces = [hit]
        if request.expand == "neighbours":
            pieces = list(view.around(hit.chunk_id, request.reach))
        if document is None or any(
            document.text[piece.start : piece.end] != piece.text for piece in pieces
        ):
            grown.append(hit)
            changed.append(hit.document_id)
        else:
            span = _section_span(hit, document)
            if request.expand == "neighbours":
                span = Span(min(p.start for p in pieces), max(p.end for p in pieces))
            span = _allowed_span(hit, span, barred.get(hit.document_id, ()))
            grown.append(_extended_hit(hit, document, span))
    notes = [
        f"{name} has changed since the snapshot was made: {changed.count(name)} of its chunks are "
        f"given without their surroundings"
        for name in dict.fromkeys(changed)
    ]
    return tuple(grown), notes


def _barred_chunks(
    view: View, hits: Sequence[Hit], filters: Sequence[Filter]
) -> Mapping[str, Sequence[Hit]]:
    """Per document of some hits its chunks that miss a hard condition, in one look-up."""
    first = {hit.document_id: hit.chunk_id for hit in hits}
    pieces = [piece for chunk_id in first.values() for piece in view.around(chunk_id, _WHOLE)]
    barred: dict[str, list[Hit]] = {}
    allowed = view.allowed([piece.chunk_id for piece in pieces], filters)
    for piece, meets in zip(pieces, allowed, strict=True):
        if not meets:
            barred.setdefault(piece.document_id, []).append(piece)
    return barred


def _allowed_span(hit: Hit, span: Span, barred: Sequence[Hit]) -> Span:
    """The part of a span around a hit up to the nearest hidden chunks."""
    before = [min(piece.end, hit.start) for piece in barred if piece.start < hit.start]
    behind = [max(piece.start, hit.end) for piece in barred if piece.end > hit.end]
    return Span(max([span.start, *before]), min([span.end, *behind]))


def _section_span(hit: Hit, document: Document) -> Span:
    """Span of a chunk and of the section that its headings name.

    That is the innermost section that holds the chunk's first character; for a chunk that opens
    with several headings the last of them, as chunkers define it, not the whole chapter.
    """
    first = _first_character(hit.text, hit.start)
    opened = [s for s in document.sections if s.span.start < hit.end and first < s.span.end]
    path = tuple(hit.headings)
    exact = [s for s in opened if path and document.headings_at(s.span.start) == path]
    holding = [s for s in opened if s.span.start <= first]
    chosen = exact[:1] or sorted(holding, key=lambda s: s.span.length)[:1]
    return Span(
        min([hit.start, *(s.span.start for s in chosen)]),
        max([hit.end, *(s.span.end for s in chosen)]),
    )


def _first_character(text: str, start: int) -> int:
    return start + len(text) - len(text.lstrip()) if text.strip() else start


def _extended_hit(hit: Hit, document: Document, span: Span) -> Hit:
    """The hit extended to a span around its own; with pages as from a chunker."""
    text = document.text[span.start : span.end]
    first = _first_character(text, span.start)
    pages = [page for page in document.pages if page.span.length]
    starts = [page.span.start for page in pages]
    inside = pages[bisect_right(starts, first) : bisect_left(starts, span.end)]
    return replace(
        hit,
        start=span.start,
        end=span.end,
        text=text,
        page=document.page_at(first),
        pages=tuple((page.span.start, page.number) for page in inside),
    )


class SearchHandler(BatchHandler[Search, SearchReply]):
    """Carries out searches; dense ones on one snapshot become one matrix product."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Search) -> bool:
        """False: searching is free, so replies are not stored."""
        return False

    def carry(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        replies: list[SearchReply | RagwrightError] = [
            RetrieveError("not carried out") for _ in requests
        ]
        dense: dict[tuple[object, ...], list[int]] = {}
        for number, request in enumerate(requests):
            if request.channel == "dense" and request.relax is None:
                key = (request.snapshot, request.k, request.filters, len(request.vector))
                dense.setdefault(key, []).append(number)
            else:
                replies[number] = _reply_or_error(
                    self._views, request.snapshot, partial(_search_view, request)
                )
        for numbers in dense.values():
            group = [requests[number] for number in numbers]
            for number, reply in zip(numbers, self._search_dense(group), strict=True):
                replies[number] = reply
        return replies

    def _search_dense(self, group: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        first = group[0]

        def ask(view: View) -> list[SearchReply]:
            vectors = np.stack([_request_vector(request) for request in group])
            results = view.dense(vectors, first.k, first.filters)
            note = view.approximation(first.k, first.filters)
            noted = (*((note,) if note else ()), *view.range_notes(first.filters))
            return [SearchReply(result, notes=noted) for result in results]

        try:
            replies, notes = self._views.answer(first.snapshot, ask)
        except RagwrightError as error:
            # One bad vector must not fail the others.
            return (
                [error]
                if len(group) == 1
                else [self._search_dense([result])[0] for result in group]
            )
        return (
            [replace(result, notes=(*notes, *result.notes)) for result in replies]
            if notes
            else replies
        )


def _reply_or_error(
    views: Views, snapshot: str, ask: Callable[[View], ReplyT]
) -> ReplyT | RagwrightError:
    """The reply with the notes of the view that answered, or its error."""
    try:
        reply, notes = views.answer(snapshot, ask)
    except RagwrightError as error:
        return error
    return replace(reply, notes=(*notes, *reply.notes)) if notes else reply


def _search_view(request: Search, view: View) -> SearchReply:
    reply = _found(view, request)
    notes = view.range_notes(request.filters)
    return replace(reply, notes=(*reply.notes, *notes)) if notes else reply


def _found(view: View, request: Search) -> SearchReply:
    if request.channel == "all":
        return _listed_chunks(view, request)
    if request.relax is not None:
        query = _request_vector(request) if request.channel == "dense" else request.text
        return view.relaxed(query, request.k, request.relax, request.filters)
    return view.keyword_reply(request.text, request.k, request.filters)


def _request_vector(request: Search) -> Matrix:
    if len(request.vector) % 4:
        raise RetrieveError(f"{len(request.vector)} bytes are not a float32 vector")
    return np.frombuffer(request.vector, np.float32)


def _listed_chunks(view: View, request: Search) -> SearchReply:
    if request.relax is not None:
        raise RetrieveError(
            "listing every chunk does not support soft filters",
            hint="use hard filters, or search instead",
        )
    ids = view.every(request.k, request.filters, request.after)
    return SearchReply(tuple((chunk_id, 0.0) for chunk_id in ids))


class LookupHandler(BatchHandler[Lookup, LookupReply]):
    """Fetches the chunks behind candidates."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Lookup) -> bool:
        """False: looking up is free, so replies are not stored."""
        return False

    def carry(self, requests: Sequence[Lookup]) -> Sequence[LookupReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        return [
            _reply_or_error(
                self._views,
                request.snapshot,
                lambda view, request=request: look_up(view, request, self._views.document),  # type: ignore[misc]
            )
            for request in requests
        ]
