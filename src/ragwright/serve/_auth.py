"""Entry checks: keys, hosts, origins and sizes, checked before any endpoint runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import RagwrightError, is_group_name
from ..index import View
from ._admission import Caller
from ._audit import HttpMiddleware
from ._configurations import target_of
from ._errors import REQUEST_ID, ApiError, bears_secret, error_reply
from ._keys import COOKIE, PROXIED, ROLES, Identity, Note, is_loopback, key_of_cookie
from ._options import PeopleOptions, ProxyOptions
from ._service import Service

T = TypeVar("T")

_OPEN = frozenset({"/healthz", "/readyz", "/login", "/logout"})
"""Paths that never need a key; nor do the files that pages load."""

_MOST_BODY = 4_000_000
"""Most bytes of a request's body."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessCheck(HttpMiddleware):
    """ASGI middleware: every request has a :class:`Caller`, or is refused.

    Without keys, only requests that name this machine are let in, so that a page of another site
    cannot reach the server through a name of its own (DNS rebinding). A browser that sends a
    request on behalf of another site is refused.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
        restricted = identity.role == "reviewer" and not await reads_all(self._service, identity)
        return Caller(identity, base, restricted)

    def _require_own_host(self, request: Request) -> None:
        host = request.url.hostname or ""
        if not is_loopback(host) and host != urlsplit(self._service.options.public_url).hostname:
            fault = f"this server does not answer for the host {host!r}: set serve.public_url"
            raise ApiError(421, fault, "host")

    async def _identity_of_request(self, request: Request) -> Identity:
        """Who sends a request: the person whom the proxy names, else a key or its cookie."""
        keys = self._service.keys
        options = self._service.options
        person = read_proxied_person(request, options.proxy, options.people)
        if person is not None:
            # A browser of this machine may be led here under another name (DNS rebinding), and its
            # page could send the headers of a proxy that runs here.
            if request.client is not None and is_loopback(request.client.host):
                self._require_own_host(request)
            return person
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

    def _same_site(self, request: Request) -> None:
        """Refuse what a browser sends for a page of another site."""
        site = request.headers.get("sec-fetch-site", "none")
        if request.method in _SAFE:
            return
        origin = request.headers.get("origin")
        if origin in self._service.options.cors:
            return
        host = request.headers.get("host", "")
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if (is_foreign or site == "cross-site") and not bears_secret(request):
            raise ApiError(
                403, f"requests from {origin or 'another site'!r} are refused", "cross_origin"
            )

    def _bounded_receive(self, request: Request, receive: Receive) -> Receive:
        """A reader of the body that stops where the body is too long, or takes too long."""
        most = _MOST_BODY
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


_LONGEST_NAME = 255
_LABEL = 80
_GROUPS = 500
_GROUP = 256


def read_proxied_person(
    request: Request, proxy: ProxyOptions, people: PeopleOptions
) -> Identity | None:
    """The person whom the proxy names, under the present settings.

    None where it names nobody, or another sender does.

    Raises:
        ApiError: 401; the name or the groups cannot be used, or a header was sent twice. 403;
            nothing lets the person in.
    """
    sender = request.client.host if request.client is not None else ""
    if not proxy.user_header or not proxy.trusts(sender):
        return None
    name = _only_header(request, proxy.user_header).strip()
    if not name:
        return None
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise _refusal(f"the header {proxy.user_header} cannot be used")
    sent = _only_header(request, proxy.groups_header).split(",")
    groups = tuple(dict.fromkeys(filter(None, map(str.strip, sent))))
    if len(groups) > _GROUPS or any(len(group) > _GROUP for group in groups):
        raise _refusal(
            f"more than {_GROUPS} groups, or one of more than {_GROUP} characters: let the proxy "
            "send only the groups of this server"
        )
    matching = [role for role in ROLES if {*groups} & {*people.roles.get(role, ())}]
    role = matching[-1] if matching else people.default_role
    opened = [known for group in groups for known in people.configurations.get(group, ())]
    narrowed = bool(people.configurations) and role != "owner"
    if role == "none" or (narrowed and not opened):  # an empty list would open all of them
        request.state.refused = Note(who=PROXIED + name)
        raise ApiError(403, "you may not use this server: you have no role here", "no_role")
    # A path without its first slash: Keycloak names a group by its path, ``/hr/berlin``. What no
    # document can name is left out.
    named = (group.removeprefix("/") for group in groups)
    return Identity(
        PROXIED + name,
        role,
        tuple(dict.fromkeys(opened)) if narrowed else (),
        per_minute=people.per_minute,
        daily_budget=people.daily_budget,
        groups=tuple(dict.fromkeys(filter(is_group_name, named))),
        label=_printed(_only_header(request, proxy.name_header)) or _printed(name),
    )


def _only_header(request: Request, header: str) -> str:
    """The value of a header, which a client must not be able to add to; empty without a name."""
    values = request.headers.getlist(header) if header else []
    if len(values) > 1:
        raise _refusal(f"the header {header} was sent twice")
    sent = values[0] if values else ""
    try:
        return sent.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return sent


def _refusal(fault: str) -> ApiError:
    return ApiError(401, fault, "invalid_proxy")


def _printed(text: str) -> str:
    """A name for pages: printable, on one line, of a bounded length."""
    kept = "".join(character for character in text if character.isprintable())
    return " ".join(kept.split())[:_LABEL]


async def reads_all(service: Service, identity: Identity) -> bool:
    """True if the rights of an identity hide no chunk of the index; False without an index."""
    try:
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            asking = opened.asking(identity)
            if not asking.filters:
                return True

            def hides_none(view: View) -> bool:
                return view.count(asking.filters) == view.count()

            snapshot = target_of(asking).snapshot
            reads, _ = await asyncio.to_thread(bench.project.views.answer, snapshot, hides_none)
            return reads
    except RagwrightError:  # nothing is searched, or no chunk has what the rights ask for
        return False


class OtherOrigins(CORSMiddleware):
    """ASGI middleware: lets scripts of the origins of ``serve.cors`` call the server.

    It comes before :class:`AccessCheck`, since a browser sends no key with the request by which it
    asks for permission. Cookies are not allowed: such a script sends a key of its own.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(
            app,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=(REQUEST_ID, "retry-after"),
        )
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the headers that an allowed origin needs."""
        if self._service.options.cors:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        """True for an origin of the settings, which may change while the server runs."""
        return origin in self._service.options.cors


class CleanPaths(HttpMiddleware):
    """ASGI middleware: HEAD is asked as GET, and paths are read in their clean form.

    It serves below the path of a proxy, whether or not the proxy removes it. The server sends no
    body for HEAD. An agent's connection is not opened by it: it has no end.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and put the path of the proxy before the addresses of redirects."""
        prefix = self._service.options.prefix
        path = re.sub(r"^/+", "/", scope["path"])
        path = re.sub(rf"^{re.escape(prefix)}(?=/|$)", "", path) or "/"
        path = re.sub(r"^/v1/+(.*?)/*$", r"/v1/\1", path)
        as_get = scope["method"] == "HEAD" and not path.startswith("/mcp")
        method = "GET" if as_get else scope["method"]
        # Starlette begins the addresses of a request with the root path.
        root = {"app_root_path": prefix} if prefix else {}
        clean = {"path": path, "raw_path": path.encode(), "method": method, **root}
        host = Headers(scope=scope).get("host", "")

        async def sent(message: Message) -> None:
            if prefix and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "location" in headers:
                    headers["location"] = _below_prefix(prefix, headers["location"], host)
            await send(message)

        await self._app({**scope, **clean}, receive, sent)


def _below_prefix(prefix: str, location: str, host: str) -> str:
    """An address of this server with the prefix before its path."""
    parts = urlsplit(location)
    own = parts.netloc in ("", host) and parts.path.startswith("/")
    if not own or parts.path == prefix or parts.path.startswith(f"{prefix}/"):
        return location
    return parts._replace(path=prefix + parts.path).geturl()
