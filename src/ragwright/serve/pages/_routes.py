"""The addresses of the pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from .._api import caller_of, service_of
from .._door import COOKIE, session_identity
from .._errors import ApiError
from .._sessions import LIFE
from . import (
    _added,
    _ask,
    _compare,
    _drafts,
    _experiments,
    _outputs,
    _settings,
    _sources,
    _testsets,
)
from ._base import STATIC, local_path, login_page, static_file

if TYPE_CHECKING:
    from ...operations import EventKind
    from .._identity import Identity

_PAGES = (
    _ask,
    _sources,
    _testsets,
    _compare,
    _drafts,
    _experiments,
    _outputs,
    _settings,
    _added,
)


def _note(request: Request, kind: EventKind, identity: Identity | None) -> None:
    """Note for the audit log who signs in or out."""
    if identity is not None:
        caller_of(request).note.identified(kind, identity.name, identity.role)


def page_routes() -> APIRouter:
    """Every page; none of them is part of the API's description."""
    router = APIRouter(include_in_schema=False)
    for part in _PAGES:
        router.include_router(part.router)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """A script or a style sheet."""
        if name not in STATIC:
            raise ApiError(404, "file not found", "not_found")
        headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(static_file(name), media_type=STATIC[name], headers=headers)

    @router.get("/login", response_class=HTMLResponse)
    async def login(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
        """Ask for a key."""
        return login_page(request, next)

    @router.post("/login")
    async def log_in(request: Request, key: str = Form(""), next: str = Form("/")) -> Response:  # noqa: A002
        """Begin a session: its random id goes into a cookie that no script can read.

        Nothing that another site causes carries it. So a link of another site, such as a citation
        in a chat program, leads to the sign-in page, which then goes on by itself.
        """
        service = service_of(request)
        serve_key = service.keys.find(key.strip())
        if serve_key is None:
            return login_page(request, next, wrong=True)
        session = await asyncio.to_thread(service.sessions.begin, serve_key.hash)
        _note(request, "signed in", serve_key)
        reply = RedirectResponse(local_path(next), 303)
        reply.set_cookie(
            COOKIE,
            session,
            max_age=LIFE,
            httponly=True,
            samesite="strict",
            secure=caller_of(request).base.startswith("https://"),
        )
        return reply

    @router.get("/session")
    async def session(request: Request) -> Response:
        """Say whether this browser is signed in."""
        signed_in = session_identity(service_of(request), request) is not None
        return JSONResponse({"signed_in": signed_in}, headers={"cache-control": "no-store"})

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        """End the session."""
        sessions = service_of(request).sessions
        _note(request, "signed out", session_identity(service_of(request), request))
        await asyncio.to_thread(sessions.end, request.cookies.get(COOKIE, ""))
        reply = RedirectResponse("/login", 303)
        reply.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return reply

    return router
