"""Sources: the documents, and the one behind a citation with the passage marked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ...core import RagwrightError, Span
from ...project import read_last_ingest
from .._api import caller_of, service_of
from .._catalogue import Catalogue
from .._errors import ApiError
from .._identity import Identity
from .._links import is_same_text, source_url
from .._reading import VisibleSource, visible_source
from .._service import Service
from ._base import error_page, fragment, page, page_headers

router = APIRouter()

_LISTED = 100
"""Documents on one page."""

_SHOWN = 200_000
"""Most characters of a document on one page, around the passage."""


_AROUND = 1_500
"""Characters before and after a passage that is shown beside an answer."""

_CHANGED = "The document has changed since it was cited: the passage cannot be marked."
_PART = "This is a part of the document, around the passage."
_NARROWED = "Only the parts of the document that you may see are shown."


@dataclass(frozen=True, slots=True)
class _SourceListing:
    """The documents to list, as the address of the page says."""

    find: str = ""
    kind: str = ""
    group: str = ""
    page: int = 1

    def href(self, page: int) -> str:
        """The address of another page of the listing."""
        values = {key: value for key, value in asdict(replace(self, page=page)).items() if value}
        return f"/sources?{urlencode(values)}"


@router.get("/sources", response_class=HTMLResponse)
async def sources(
    request: Request,
    find: str = Query("", max_length=2_000),
    kind: str = Query("", max_length=100),
    group: str = Query("", max_length=200),
    at: int = Query(1, alias="page", ge=1, le=1_000_000),
) -> HTMLResponse:
    """List the documents, or those with a text in their name or title, of a kind, for a group."""
    service, caller = service_of(request), caller_of(request)
    listing = _SourceListing(find.strip(), kind, group, at)
    try:
        opened, _ = service.find("", caller.identity)
        catalogue = Catalogue()
        if opened.target is not None:
            async with service.using(opened) as bench:
                asking = opened.asking(caller.identity)
                catalogue = await service.catalogues.of(bench, asking)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    if caller.identity is not None and not caller.owner:
        catalogue = catalogue.seen_by(caller.identity.groups)
    matching = catalogue.find(listing.find, kind, group)
    skipped = (at - 1) * _LISTED
    # Names of sources that failed are for those who may see all sources.
    ingest = None
    if caller.owner and not caller.narrowed and at == 1 and not find:
        ingest = await service.for_page(read_last_ingest, service.folder)
    values = {
        "ingest": ingest,
        "title": "Sources",
        "sources": matching[skipped : skipped + _LISTED],
        "matching": len(matching),
        "total": len(catalogue.sources),
        "kinds": catalogue.kinds,
        "groups": catalogue.groups,
        "ungrouped": "everyone" if opened.ungrouped else "owners",
        "whole": caller.owner,
        "listing": listing,
        "first": skipped + 1,
        "previous": listing.href(at - 1) if at > 1 else "",
        "next": listing.href(at + 1) if skipped + _LISTED < len(matching) else "",
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
        visible, spans = await _first_visible(service, caller.identity, id)
    except RagwrightError as error:
        return error_page(request, error)
    if visible is None:
        return error_page(request, ApiError(404, "source not found", "not_found"))
    values = _source_values(visible, start, end, v)
    borders = _chunk_pieces(visible, spans) if chunks else []
    return page(request, "source.html", {**values, "id": id, "pieces": borders})


@router.get("/source/beside", response_class=HTMLResponse)
async def show_passage(
    request: Request,
    id: str = "",  # noqa: A002
    start: int = 0,
    end: int = 0,
    v: str = "",
) -> HTMLResponse:
    """Show the passage of a citation with the text around it, for a place beside the answer."""
    service, caller = service_of(request), caller_of(request)
    caller.note.used([id])
    visible, _ = await _first_visible(service, caller.identity, id)
    if visible is None:
        raise ApiError(404, "source not found", "not_found")
    values = _source_values(visible, start, end, v)
    before, after = values["before"], values["after"]
    cut = {
        "before": before[-_AROUND:],
        "after": after[:_AROUND],
        "cut_before": len(before) > _AROUND,
        "cut_after": len(after) > _AROUND,
    }
    link = source_url("", id, start, end, values["marked"])
    html = fragment(service, "beside.html", {**values, **cut, "whole": link})
    return HTMLResponse(html, headers=page_headers())


async def _first_visible(
    service: Service, identity: Identity | None, document_id: str
) -> tuple[VisibleSource | None, tuple[Span, ...]]:
    """The document in the first configuration that holds it, and its chunks' spans."""
    for opened in service.configurations(identity):
        if opened.target is None:
            continue
        async with service.using(opened) as bench:
            asking = opened.asking(identity)
            visible = await visible_source(bench, asking, document_id)
            if visible is not None:
                return visible, visible.chunks
    return None, ()


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
    marked = passage if passage and is_same_text(stamp, passage) else ""
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
