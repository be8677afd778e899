"""Chunks with their surroundings: the text of neighbours or of their section.

A view holds only the texts of chunks, so text between them comes from the stored document. That may
be a newer version than the view's: unless the view's pieces are at their places in it, a chunk is
returned without surroundings, with a note.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..core import Document, Filter, Hit, RetrieveError, Section, Span
from ..flow import Lookup, LookupReply
from ._store import View

Documents = Callable[[str], Document | None]

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
        if document is None or not all(_stands_in(document, piece) for piece in pieces):
            grown.append(hit)
            changed.append(hit.document_id)
        else:
            is_near = request.expand == "neighbours"
            span = _joint_span(pieces) if is_near else _section_span(hit, document)
            span = _allowed_span(hit, span, barred.get(hit.document_id, ()))
            grown.append(_extended_hit(hit, document, span))
    notes = [
        f"{name} has changed since the snapshot was made: {changed.count(name)} of its chunks are "
        f"given without their surroundings"
        for name in dict.fromkeys(changed)
    ]
    return tuple(grown), notes


def _stands_in(document: Document, piece: Hit) -> bool:
    return document.text[piece.start : piece.end] == piece.text


def _joint_span(pieces: Sequence[Hit]) -> Span:
    return Span(min(piece.start for piece in pieces), max(piece.end for piece in pieces))


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
    exact = [
        s for s in opened if hit.headings and _heading_path(document, s) == tuple(hit.headings)
    ]
    holding = [s for s in opened if s.span.start <= first]
    chosen = exact[:1] or sorted(holding, key=lambda s: s.span.length)[:1]
    return Span(
        min([hit.start, *(s.span.start for s in chosen)]),
        max([hit.end, *(s.span.end for s in chosen)]),
    )


def _heading_path(document: Document, section: Section) -> tuple[str, ...]:
    return document.headings_at(section.span.start)


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
