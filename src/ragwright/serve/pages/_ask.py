"""Ask: a question answered for several personas side by side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ...answer import CitedSpan, Marks
from ...core import RagwrightError
from .._admission import Wanted, admitted
from .._answers import answered
from .._api import caller_of, service_of
from .._errors import ApiError, api_error
from .._links import closest_spans, source_url
from ._base import error_page, page

if TYPE_CHECKING:
    from .._answers import Delivered

router = APIRouter()

_LONGEST = 10_000
_MOST = 6
"""Personas at once."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of an answer: text, and the span that it is a mark of."""

    text: str
    span: CitedSpan | None = None


@router.get("/", response_class=HTMLResponse)
async def ask(
    request: Request,
    q: str = Query("", max_length=_LONGEST),
    persona: list[str] = Query(default_factory=list),  # noqa: B008
    configuration: str = "",
) -> HTMLResponse:
    """Ask a question; a script shows the answers as they are written, a form does without."""
    service, caller = service_of(request), caller_of(request)
    try:
        names = [one.name for one in service.configurations(caller.key)]
        opened, _ = service.find(configuration, caller.key)
        chosen = [name for name in persona if name in opened.personas][:_MOST]
        chosen = chosen or list(opened.personas[:1])
        made = []
        if q.strip():
            async with admitted(service, caller, Wanted(opened.name, request=request)) as work:
                made = await answered(work, q, chosen, work.asking())
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)
    values = {
        "title": "Ask",
        "question": q,
        "configurations": names,
        "configuration": opened.name,
        "personas": [{"name": name, "chosen": name in chosen} for name in opened.personas],
        "answers": [_shown(one) for one in made],
        "fault": opened.fault.what if opened.target is None and opened.fault else "",
        "hint": (opened.fault.hint or "") if opened.target is None and opened.fault else "",
    }
    return page(request, "ask.html", values)


def _shown(done: Delivered) -> dict[str, Any]:
    answer = done.answer
    return {
        "persona": answer.persona,
        "parts": _parts(done.marks),
        "spans": done.marks.spans,
        "closest": closest_spans(answer, done.marks.link),
        "abstained": answer.abstained,
        "model": answer.model,
        "notes": answer.notes,
    }


def _parts(marks: Marks) -> list[_Part]:
    """The text cut at its marks, so that each mark becomes a link and nothing else does."""
    parts, at = [], 0
    for mark in marks.marks:
        parts.append(_Part(marks.text[at : mark.start]))
        parts.append(_Part(marks.text[mark.start : mark.end], mark.span))
        at = mark.end
    return [*parts, _Part(marks.text[at:])]


@router.get("/ask/why", response_class=HTMLResponse)
async def why(
    request: Request, q: str = Query(max_length=_LONGEST), configuration: str = ""
) -> HTMLResponse:
    """Why the passages were found: words looked for, ranks and scores per channel."""
    service, caller = service_of(request), caller_of(request)
    try:
        wanted = Wanted(configuration, "searches", request=request)
        async with admitted(service, caller, wanted) as work:
            asking = work.asking()
            found = await work.result(work.bench.aretrieve(q, None, asking))
            explaining = asyncio.to_thread(work.bench.explain, found, scope=work.scope)
            explained = await work.result(explaining)
    except (RagwrightError, ApiError, TimeoutError) as error:
        return page(
            request,
            "why.html",
            {"message": api_error(error, narrowed=caller.narrowed).message, "hits": []},
        )
    hits = [
        {
            "hit": hit,
            "url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text),
            "matched": explained.matched.get(hit.chunk_id, ()),
            "channels": sorted(hit.channels.items()),
        }
        for hit in found.hits
    ]
    values = {"message": "", "hits": hits, "terms": explained.terms, "reason": explained.reason}
    return page(request, "why.html", values)
