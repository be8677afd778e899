"""Sessions: who is signed in, and ending it; owners see everyone's, others their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError, utc_minute
from .._api import caller_of, service_of
from .._door import COOKIE
from .._errors import ApiError
from .._keys import hashed
from ._base import error_page, page

if TYPE_CHECKING:
    from .._admission import Caller
    from .._service import Service
    from .._sessions import ServeSession

router = APIRouter()

_LISTED = 200
"""Most sessions on the page, those that end last first."""


@router.get("/sessions", response_class=HTMLResponse)
async def sessions(request: Request, find: str = Query("", max_length=500)) -> HTMLResponse:
    """List the sessions that a caller may end."""
    service, caller = service_of(request), caller_of(request)
    try:
        known = await _of_caller(service, caller)
    except RagwrightError as error:
        return error_page(request, error)
    wanted = find.strip().casefold()
    matching = [s for s in known if wanted in f"{s.name}\n{s.label}".casefold()]
    here = hashed(request.cookies.get(COOKIE, ""))
    values = {
        "title": "Sessions",
        "sessions": [_shown(session, here) for session in matching[:_LISTED]],
        "matching": len(matching),
        "total": len(known),
        "find": find.strip(),
        "everyone": caller.owner,
        "own_name": caller.name,
        "several": sum(session.name == caller.name for session in known) > 1,
    }
    return page(request, "sessions.html", values)


@router.post("/sessions/end")
async def end(
    request: Request,
    session: str = Form("", max_length=64),
    name: str = Form("", max_length=600),
) -> Response:
    """End one session, or all of a key or person: the next request with it is refused."""
    service, caller = service_of(request), caller_of(request)
    try:
        known = await _of_caller(service, caller)
        chosen = [s for s in known if (s.id == session if session else s.name == name)]
        if not chosen:
            raise ApiError(404, "this session has ended already", "not_found")
        caller.note.subject = chosen[0].name
        await asyncio.to_thread(service.sessions.revoke, session or name)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse("/sessions", 303)


async def _of_caller(service: Service, caller: Caller) -> list[ServeSession]:
    """The sessions that a caller may see: everyone's for owners, else their own."""
    known = await asyncio.to_thread(service.sessions.all)
    return [session for session in known if caller.owner or session.name == caller.name]


def _shown(session: ServeSession, here: str) -> dict[str, Any]:
    return {
        "id": session.id,
        "name": session.name,
        "shown": session.label or session.name,
        "way": {"key": "a key", "provider": "an account"}[session.way],
        "began": utc_minute(session.began),
        "ends": utc_minute(session.ends),
        "here": here.startswith(session.id),
    }
