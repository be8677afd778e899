"""Sources: the documents, and the one behind a citation with the passage marked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ...core import RagwrightError, Span
from ...project import figure_json, last_ingest
from .._api import caller_of, service_of
from .._errors import ApiError
from .._figures import addressed
from .._links import same_text
from .._reading import ListedSource, VisibleSource, list_sources, visible_source
from ._base import error_page, page

if TYPE_CHECKING:
    from ...index import Figure
    from .._identity import Identity
    from .._service import Service

router = APIRouter()

_LISTED = 100
"""Documents on one page."""

_SHOWN = 200_000
"""Most characters of a document on one page, around the passage."""

_FIGURES = 24
"""Figures of a document on one page."""

_CHANGED = "The document has changed since it was cited: the passage cannot be marked."
_PART = "This is a part of the document, around the passage."
_NARROWED = "Only the parts of the document that you may see are shown."


@router.get("/sources", response_class=HTMLResponse)
async def sources(
    request: Request,
    after: str = "",
    configuration: str = "",
    find: str = Query("", max_length=2_000),
) -> HTMLResponse:
    """List the documents by id, or those whose id contains a text."""
    service, caller = service_of(request), caller_of(request)
    try:
        opened, _ = service.find(configuration, caller.identity)
        listed: list[ListedSource] = []
        total: int | None = 0
        if opened.target is not None:
            async with service.using(opened) as bench:
                asking = opened.asking(caller.identity)
                listed, total = await list_sources(bench, asking, after, _LISTED, find.strip())
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    # Names of sources that failed are for those who may see all sources.
    ingest = None
    if caller.owner and not caller.narrowed and not after and not find:
        ingest = await service.for_page(last_ingest, service.folder)
    values = {
        "ingest": ingest,
        "title": "Sources",
        "sources": listed,
        "total": total,
        "after": after,
        "find": find.strip(),
        "next": listed[-1].id if len(listed) == _LISTED else "",
    }
    return page(request, "sources.html", values)


@router.get("/source", response_class=HTMLResponse)
async def source(
    request: Request,
    id: str = "",  # noqa: A002
    start: int = 0,
    end: int = 0,
    v: str = "",
    chunks: bool = False,
) -> HTMLResponse:
    """Show a document of the index, the passage of a citation marked, or its chunks."""
    service, caller = service_of(request), caller_of(request)
    caller.note.used([id])
    try:
        visible, spans, figures = await _first_visible(service, caller.identity, id)
    except RagwrightError as error:
        return error_page(request, error)
    if visible is None:
        return error_page(request, ApiError(404, "source not found", "not_found"))
    values = _source_values(visible, start, end, v)
    borders = _chunk_pieces(visible, spans) if chunks else []
    near = _near_figures(visible, figures, start if values["marked"] else None, values["page"])
    shown = [addressed(caller.base, figure_json(figure)) for figure in near]
    return page(request, "source.html", {**values, "id": id, "pieces": borders, "figures": shown})


async def _first_visible(
    service: Service, identity: Identity | None, document_id: str
) -> tuple[VisibleSource | None, tuple[Span, ...], list[Figure]]:
    """The document in the first configuration that holds it, its chunks' spans, its figures."""
    for opened in service.configurations(identity):
        if opened.target is None:
            continue
        async with service.using(opened) as bench:
            asking = opened.asking(identity)
            visible = await visible_source(bench, asking, document_id)
            if visible is not None:
                kept = bench.project.figures
                figures = await asyncio.to_thread(kept.of, [document_id])
                return visible, visible.chunks, figures
    return None, (), []


def _near_figures(
    visible: VisibleSource, figures: list[Figure], position: int | None, page: int | None
) -> list[Figure]:
    """The figures of the passage's chunk and page; without a passage the first of the document."""
    seen = [
        figure
        for figure in figures
        if visible.whole
        or (figure.start is not None and visible.shows(figure.start, figure.start + 1))
    ]
    if position is None:
        return seen[:_FIGURES]
    around = [span for span in visible.chunks if span.start <= position < span.end]
    return [
        figure
        for figure in seen
        if (page is not None and figure.page == page)
        or any(figure.start is not None and s.start <= figure.start < s.end for s in around)
    ][:_FIGURES]


def _chunk_pieces(visible: VisibleSource, spans: tuple[Span, ...]) -> list[dict[str, Any]]:
    """The chunks in text order; what a chunk shares with the one before it is set apart."""
    pieces, last = [], 0
    for number, span in enumerate(sorted(spans, key=lambda chunk: (chunk.start, chunk.end)), 1):
        shared = max(0, min(last, span.end) - span.start)
        text = visible.text(span.start, span.end)
        pieces.append(
            {"number": number, "span": span, "shared": text[:shared], "text": text[shared:]}
        )
        last = max(last, span.end)
        if last > _SHOWN:
            break
    return pieces


def _source_values(visible: VisibleSource, start: int, end: int, stamp: str) -> dict[str, Any]:
    document = visible.document
    is_span = 0 <= start < end <= len(document.text)
    passage = document.text[start:end] if is_span and visible.shows(start, end) else ""
    marked = passage if passage and same_text(stamp, passage) else ""
    notes = []
    if stamp and not marked:
        notes.append(_CHANGED)
    if not visible.whole:
        notes.append(_NARROWED)
    low, high = 0, len(document.text)
    if high > _SHOWN:
        low = max(0, (start if marked else 0) - _SHOWN // 2)
        high = min(high, low + _SHOWN)
        notes.append(_PART)
    middle = (start, end) if marked else (high, high)
    address = document.source
    page = next(
        (page.number for page in document.pages if page.span.start <= start < page.span.end), None
    )
    return {
        "title": document.title or document.id,
        "source": address,
        "link": address if address.startswith(("http://", "https://")) else "",
        "page": page if marked else None,
        "note": " ".join(notes),
        "before": visible.text(low, middle[0]),
        "marked": marked,
        "after": visible.text(middle[1], high),
    }
