"""Entry checks: keys, hosts, origins and sizes, checked before any endpoint runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import RagwrightError
from ._admission import Caller
from ._cookie import COOKIE, key_of_cookie
from ._errors import ApiError, bears_secret, error_reply
from ._identity import Identity, is_loopback
from ._note import Note
from ._people import Person, identity_of, read_proxied_person
from ._reading import reads_all
from ._service import Service

T = TypeVar("T")

_OPEN = frozenset({"/healthz", "/readyz", "/login", "/logout"})
"""Paths that never need a key; nor do the files that pages load."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Door:
    """ASGI middleware: every request has a :class:`Caller`, or is refused.

    Without keys, only requests that name this machine are let in, so that a page of another site
    cannot reach the server through a name of its own (DNS rebinding). A browser that sends a
    request on behalf of another site is refused.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            _require_readable_host(request)
            scope.setdefault("state", {})["caller"] = await self._caller_of_request(request)
            self._same_site(request)
            receive = self._bounded_receive(request, receive)
        except (ApiError, RagwrightError) as error:
            is_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
            refused: Response = error_reply(error, request)
            if refused.status_code == 401 and is_page:
                query = urlencode({"next": f"{request.url.path}?{request.url.query}".rstrip("?")})
                refused = RedirectResponse(f"/login?{query}", 303)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _caller_of_request(self, request: Request) -> Caller:
        base = self._service.options.public_url.rstrip("/") or str(request.base_url).rstrip("/")
        path = request.url.path
        if path in _OPEN or path.startswith("/static/"):
            return Caller(None, base, unknown=True)
        if not await self._looked_up(lambda: self._service.guarded):
            came_from = request.client.host if request.client is not None else ""
            if not is_loopback(came_from):
                raise ApiError(401, "a key is needed, and none has been made", "invalid_api_key")
            self._require_own_host(request)
            return Caller(None, base)
        identity = await self._identity_of_request(request)
        hindered = identity.role == "reviewer" and not await reads_all(self._service, identity)
        return Caller(identity, base, hindered)

    def _require_own_host(self, request: Request) -> None:
        host = request.url.hostname or ""
        public = urlsplit(self._service.options.public_url).hostname
        if not is_loopback(host) and host != public:
            fault = f"this server does not answer for the host {host!r}: set serve.public_url"
            raise ApiError(421, fault, "host")

    async def _identity_of_request(self, request: Request) -> Identity:
        """Who sends a request: the person whom the proxy names, else a key or its cookie."""
        keys = self._service.keys
        person = read_proxied_person(request, self._service.options.proxy)
        if person is not None:
            # A browser of this machine may be led here under another name (DNS rebinding), and its
            # page could send the headers of a proxy that runs here.
            if request.client is not None and is_loopback(request.client.host):
                self._require_own_host(request)
            return self._permitted(request, person)
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if not secret:
            secret = request.headers.get("x-api-key", "")
        elif kind.lower() != "bearer":
            secret = ""
        if secret:
            key, fault = await self._looked_up(partial(keys.find, secret.strip())), "unknown key"
        else:
            cookie = request.cookies.get(COOKIE, "")
            key = await self._looked_up(partial(key_of_cookie, keys, cookie))
            fault = "a key is needed: Authorization: Bearer KEY"
        if key is None:
            raise ApiError(401, fault, "invalid_api_key")
        return key

    async def _looked_up(self, find: Callable[[], T]) -> T:
        """What the ledger holds; where it is behind a network, nobody else waits for it."""
        return await asyncio.to_thread(find) if self._service.keys.remote else find()

    def _permitted(self, request: Request, person: Person) -> Identity:
        identity = identity_of(self._service.options.people, person)
        if identity is None:
            request.state.refused = Note(who=person.name)
            raise ApiError(403, "you may not use this server: you have no role here", "no_role")
        return identity

    def _same_site(self, request: Request) -> None:
        """Refuse what a browser sends for a page of another site."""
        site = request.headers.get("sec-fetch-site", "none")
        if request.method in _SAFE:
            return
        origin = request.headers.get("origin")
        if origin in self._service.options.cors:
            return
        is_foreign = origin is not None and not _is_same_host(
            origin, request.headers.get("host", "")
        )
        if (is_foreign or site == "cross-site") and not bears_secret(request):
            raise ApiError(
                403, f"requests from {origin or 'another site'!r} are refused", "cross_origin"
            )

    def _bounded_receive(self, request: Request, receive: Receive) -> Receive:
        """A reader of the body that stops where the body is too long, or takes too long."""
        most = self._service.options.max_body
        too_long = ApiError(413, f"the body is longer than {most:,} bytes", "too_large")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > most:
            raise too_long
        read, complete = 0, False
        patience = self._service.serving.body
        until = asyncio.get_running_loop().time() + patience

        async def bounded() -> Message:
            nonlocal read, complete
            try:
                async with asyncio.timeout_at(None if complete else until):
                    message = await receive()
            except TimeoutError:
                fault = f"the body took longer than {patience:g} s"
                raise ApiError(408, fault, "timeout") from None
            read += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if read > most:
                raise too_long
            return message

        return bounded


def _require_readable_host(request: Request) -> None:
    """Refuse a Host header that is not a host, for which Starlette puts the server's own address.

    Raises:
        ApiError: 400.
    """
    host = request.headers.get("host")
    try:
        is_readable = host is None or request.url.netloc.lower() == host.lower()
        _ = request.url.port
    except ValueError:
        is_readable = False
    if not is_readable:
        raise ApiError(400, "the Host header cannot be read", "host")


def _is_same_host(origin: str, host: str) -> bool:
    """True for an origin of this host."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False
