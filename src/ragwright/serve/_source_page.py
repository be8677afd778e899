"""``GET /source``: the document behind a citation, with the passage marked."""

from __future__ import annotations

import secrets
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, StrictUndefined, Template

from ._api import caller_of, service_of
from ._errors import ApiError, documented
from ._links import same_text
from ._reading import VisibleSource, visible_source

if TYPE_CHECKING:
    from ._keys import ServeKey
    from ._service import Service

router = APIRouter(responses=documented(400, 404))

_SHOWN = 200_000
"""Most characters of a document on one page, around the passage."""

_CHANGED = "The document has changed since it was cited: the passage cannot be marked."
_PART = "This is a part of the document, around the passage."
_NARROWED = "Only the parts of the document that this key may see are shown."


@router.get("/source", response_class=HTMLResponse, include_in_schema=False)
async def source(
    request: Request,
    id: str,  # noqa: A002
    start: int = 0,
    end: int = 0,
    v: str = "",
) -> HTMLResponse:
    """Show a document of the index, the passage of a citation marked."""
    service, caller = service_of(request), caller_of(request)
    found = await _found(service, caller.key, id)
    if found is None:
        raise ApiError(404, "there is no such source", "not_found", param="id")
    nonce = secrets.token_urlsafe(16)
    page = _template().render(**_shown(found, start, end, v), nonce=nonce)
    return HTMLResponse(page, headers=page_headers(nonce))


async def _found(service: Service, key: ServeKey | None, document_id: str) -> VisibleSource | None:
    """The document in the first configuration that holds it."""
    for opened in service.configurations(key):
        if opened.target is None:
            continue
        async with service.using(opened) as bench:
            asking = opened.asking(key)
            found = await visible_source(opened, bench, asking, document_id)
        if found is not None:
            return found
    return None


def page_headers(nonce: str) -> dict[str, str]:
    """What a browser may do with a page of ours: show it, and nothing else."""
    return {
        "content-security-policy": (
            f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        ),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "private, no-store",
    }


def _shown(found: VisibleSource, start: int, end: int, stamp: str) -> dict[str, Any]:
    document = found.document
    asked = 0 <= start < end <= len(document.text)
    passage = document.text[start:end] if asked and found.shows(start, end) else ""
    marked = passage if passage and same_text(stamp, passage) else ""
    notes = []
    if stamp and not marked:
        notes.append(_CHANGED)
    if not found.whole:
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
        "language": document.language,
        "note": " ".join(notes),
        "before": found.text(low, middle[0]),
        "marked": marked,
        "after": found.text(middle[1], high),
    }


@cache
def _template() -> Template:
    text = files(__package__).joinpath("data/source.html").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
