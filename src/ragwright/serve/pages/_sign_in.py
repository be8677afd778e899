"""Signing in and out: by a key, or at the identity provider."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ...core import StoreError
from .._api import caller_of, service_of
from .._door import COOKIE, session_identity
from .._errors import ApiError, api_error
from .._events import Happening, SignInEvent, Way, note_event
from .._identity import PERSON, is_loopback
from .._sessions import LIFE
from ..sign_in import UNDER_WAY, Return, identity_of
from ._base import local_path, login_page, onward_page

if TYPE_CHECKING:
    from ...operations import EventKind
    from .._identity import Identity
    from .._service import Service

router = APIRouter()

_BROWSER = "ragwright_sign_in"
"""Cookie that binds a sign-in to the browser that began it."""

_KINDS: Mapping[Happening, EventKind] = {
    "signed in": "signed in",
    "refused": "sign-in failed",
    "signed out": "signed out",
    "ended by the provider": "signed out",
}
"""Events of the audit log."""


@router.get("/login", response_class=HTMLResponse)
async def login(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
    """Ask for a key, or lead to the identity provider."""
    return login_page(request, next)


@router.post("/login")
async def log_in(request: Request, key: str = Form(""), next: str = Form("/")) -> Response:  # noqa: A002
    """Begin a session: its random id goes into a cookie that no script can read.

    Nothing that another site causes carries it. So a link of another site, such as a citation
    in a chat program, leads to the sign-in page, which then goes on by itself.
    """
    service = service_of(request)
    serve_key = await asyncio.to_thread(service.keys.find, key.strip())
    if serve_key is None:
        _note(request, "refused", "key", reason="unknown key")
        return login_page(
            request,
            next,
            ApiError(
                401,
                "This key is unknown. Check that all of it was copied: keys begin with rw_.",
                "invalid_api_key",
            ),
        )
    session = await asyncio.to_thread(service.sessions.begin, serve_key.hash)
    _note(request, "signed in", "key", serve_key)
    reply = RedirectResponse(local_path(next), 303)
    return await _with_session(request, reply, session, LIFE)


@router.get("/login/provider")
async def begin(request: Request, next: str = "/") -> Response:  # noqa: A002
    """Send the browser to the identity provider."""
    service = service_of(request)
    browser = request.cookies.get(_browser_cookie(request), "") or secrets.token_urlsafe(32)
    try:
        redirect = _redirect_address(request)
        address = await service.sign_in.address(browser, local_path(next), redirect)
    except (ApiError, StoreError) as error:
        return login_page(request, next, api_error(error))
    reply = RedirectResponse(address, 303, {"cache-control": "no-store"})
    reply.set_cookie(
        _browser_cookie(request),
        browser,
        max_age=UNDER_WAY,
        httponly=True,
        samesite="lax",  # the way back begins at another site
        secure=_is_secure(request),
    )
    return reply


@router.get("/login/return")
async def come_back(request: Request) -> Response:
    """Begin the session of a person whom the identity provider sends back.

    The cookie is not sent with what another site caused, and a redirect goes on in its name. So
    the reply is a page of ours, which goes on by itself.
    """
    service = service_of(request)
    query = {name: request.query_params.getlist(name) for name in ("code", "state", "iss", "error")}
    known = ""
    try:
        if any(len(values) > 1 for values in query.values()):
            raise ApiError(400, "a parameter was sent twice", "invalid_request")
        came = Return(*("".join(values) for values in query.values()))
        browser = request.cookies.get(_browser_cookie(request), "")
        redirect = _redirect_address(request)
        person, wanted = await service.sign_in.person(came, browser, redirect)
        known = person.name
        identity = identity_of(service.options.people, person)
        if identity is None:
            raise ApiError(
                403, f"{person.label or 'You'}: no role of this server is yours", "no_role"
            )
        life = service.options.sign_in.session
        session = await asyncio.to_thread(service.sessions.begin_person, person, life)
    except (ApiError, StoreError) as error:
        fault = api_error(error)
        _note(request, "refused", "provider", reason=fault.message, known=known)
        return login_page(request, "/", fault)
    _note(request, "signed in", "provider", identity)
    reply = onward_page(request, "Signed in", local_path(wanted))
    reply.delete_cookie(_browser_cookie(request), secure=_is_secure(request), httponly=True)
    return await _with_session(request, reply, session, int(life))


@router.post("/login/ended")
async def ended(request: Request, logout_token: str = Form("")) -> Response:
    """End the sessions that the identity provider has ended (back-channel logout)."""
    service = service_of(request)
    headers = {"cache-control": "no-store"}
    try:
        _require_client(service)
        number = await service.sign_in.end(logout_token)
    except ApiError as error:
        status = 400 if error.status == 401 else error.status
        return JSONResponse({"error": "invalid_request"}, status, headers)
    _note(request, "ended by the provider", "provider", reason=f"sessions: {number}")
    return Response(status_code=200, headers=headers)


@router.get("/session")
async def session(request: Request) -> Response:
    """Say whether this browser is signed in."""
    identity = await asyncio.to_thread(session_identity, service_of(request), request)
    signed_in = identity is not None
    return JSONResponse({"signed_in": signed_in}, headers={"cache-control": "no-store"})


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session; at the identity provider too, where that is set."""
    service = service_of(request)
    identity = await asyncio.to_thread(session_identity, service, request)
    await asyncio.to_thread(service.sessions.end, request.cookies.get(COOKIE, ""))
    reply: Response = RedirectResponse("/login", 303)
    if identity is not None:
        _note(request, "signed out", _way_of(identity), identity)
        if _way_of(identity) == "provider" and service.options.sign_in.sign_out == "provider":
            leaving = await service.sign_in.leaving(f"{caller_of(request).base}/login")
            # Not a redirect: the policy of our pages lets forms lead nowhere else.
            reply = onward_page(request, "Signed out", leaving) if leaving else reply
    reply.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return reply


async def _with_session(request: Request, reply: Response, session: str, life: int) -> Response:
    """A reply that puts a new session in the place of the browser's former one, which ends."""
    former = request.cookies.get(COOKIE, "")
    if former:
        await asyncio.to_thread(service_of(request).sessions.end, former)
    reply.set_cookie(
        COOKIE,
        session,
        max_age=life,
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
    return reply


def _redirect_address(request: Request) -> str:
    """The address that the provider sends people back to, which no client chooses.

    Raises:
        ApiError: 404, no provider is set; 421, the host is neither of this machine nor public.
    """
    service = service_of(request)
    _require_client(service)
    if not service.options.public_url and not is_loopback(request.url.hostname or ""):
        raise ApiError(421, "set serve.public_url to sign in from other machines", "host")
    return f"{caller_of(request).base}/login/return"


def _require_client(service: Service) -> None:
    if not service.options.sign_in.client_id:
        raise ApiError(404, "no identity provider is set", "not_found")


def _is_secure(request: Request) -> bool:
    return caller_of(request).base.startswith("https://")


def _browser_cookie(request: Request) -> str:
    """Name of the cookie; no other host of the site can set one with this prefix."""
    return f"__Host-{_BROWSER}" if _is_secure(request) else _BROWSER


def _way_of(identity: Identity) -> Way:
    return "provider" if identity.name.startswith(PERSON) else "key"


def _note(
    request: Request,
    what: Happening,
    way: Way,
    identity: Identity | None = None,
    *,
    reason: str = "",
    known: str = "",
) -> None:
    address = request.client.host if request.client is not None else ""
    name, role = (known, "") if identity is None else (identity.name, identity.role)
    note_event(service_of(request), SignInEvent(what, way, name, reason, address))
    caller_of(request).note.identified(_KINDS[what], name, role)
