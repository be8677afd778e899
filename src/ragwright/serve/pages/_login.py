"""The page that asks for a key, and signing out."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from .._api import caller_of, service_of
from .._cookie import COOKIE, LIFE, cookie_of_key, key_of_cookie
from ._base import local_path, login_page

router = APIRouter()


@router.get("/login", response_class=HTMLResponse)
async def login(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
    """Ask for a key."""
    return login_page(request, next)


@router.post("/login")
async def log_in(request: Request, key: str = Form(""), next: str = Form("/")) -> Response:  # noqa: A002
    """Put a signed cookie in the place of the key; no script can read it."""
    caller = caller_of(request)
    known = await asyncio.to_thread(service_of(request).keys.find, key.strip())
    if known is None:
        caller.note.identified("sign-in failed", "")
        fault = "This key is unknown. Check that all of it was copied: keys begin with rw_."
        return login_page(request, next, fault)
    caller.note.identified("signed in", known.name, known.role)
    reply = RedirectResponse(local_path(next), 303)
    secure = caller.base.startswith("https://")
    # Lax: a link of another site, such as a citation in a chat program, opens the document. What
    # changes something is a POST, and needs the origin of this server.
    reply.set_cookie(
        COOKIE, cookie_of_key(known), LIFE, secure=secure, httponly=True, samesite="lax"
    )
    return reply


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """Delete the cookie."""
    keys, sent = service_of(request).keys, request.cookies.get(COOKIE, "")
    key = await asyncio.to_thread(key_of_cookie, keys, sent)
    if key is not None:
        caller_of(request).note.identified("signed out", key.name, key.role)
    reply = RedirectResponse("/login", 303)
    reply.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return reply
