"""What each request did: its id, its line in the log, its counters, its event in the audit log."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import RagwrightError
from ..jobs import Event, EventKind
from ._admission import Caller
from ._errors import (
    REQUEST,
    REQUEST_ID,
    ROUTE,
    end_outages,
    error_reply,
    log,
    request_id,
    request_log,
)
from ._keys import Note
from ._options import ProxyOptions
from ._service import Service

_ASKED = frozenset(
    {
        "/",
        "/ask/stream",
        "/retrieval",
        "/v1/chat/completions",
        "/v1/drafts",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/retrieve",
    }
)
"""Routes whose POST asks something; another request that is not read by GET changes something."""

_NO_EVENT = frozenset(
    {
        "/",
        "/experiments",
        "/healthz",
        "/metrics",
        "/openapi.json",
        "/readyz",
        "/static/{name}",
        "/testsets",
        "/v1/models",
        "/v1/models/{name:path}",
    }
)
"""Routes that are read without an event: forms, names and figures, and no stored text."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_FLOOD = 120
"""Most events a minute of requests with a wrong key; others are counted."""

_TOOLS = "/mcp"
"""Where agents call tools."""

_SAID_INSIDE = frozenset({"/login", "/logout", _TOOLS, "other"})
"""Routes whose events are those that their handlers tell, if any."""

_NO_RIGHT = frozenset({401, 403, 404, 421})
_GIVEN = re.compile(r"[\w.:-]{1,64}", re.ASCII)


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes with those of included routers, which have no prefix here."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from (route,) if included is None else _flat(included.routes)


class HttpMiddleware(ABC):
    """ASGI middleware that handles HTTP requests; whatever else is passed on as it is."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or pass on what is not HTTP."""
        await (self.handle if scope["type"] == "http" else self._app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""


class RequestRecords(HttpMiddleware):
    """ASGI middleware: gives each request an id, and counts, logs and audits it.

    The id of a proxy (``x-request-id``) is kept; every reply has it in a header. What a request did
    is stored before its reply is sent. Where the audit log cannot be written and the settings say
    to wait for it, the reply is an error. A stream is stored twice: as begun before its first byte,
    and as it ended before its last.
    """

    def __init__(self, app: ASGIApp, service: Service, routes: Starlette) -> None:
        super().__init__(app, service)
        self._routes = routes
        self._minute = self._count = 0

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        sent_id = Headers(scope=scope).get(REQUEST_ID, "")
        name = sent_id if _GIVEN.fullmatch(sent_id) else secrets.token_hex(8)
        token = REQUEST.set(name)
        ROUTE.set(lambda: self._route_of(scope))
        status, begun, streaming, replaced = 500, time.perf_counter(), False, False

        async def sent(message: Message) -> None:
            nonlocal status, streaming, replaced
            if replaced:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = name
                streaming = headers.get("content-type", "").startswith("text/event-stream")
                try:
                    await self._store(scope, status, "begun" if streaming else "")
                except RagwrightError as error:
                    replaced, streaming = True, False
                    log.error("not answered, since the audit log cannot be written: %s", error)
                    caller = scope.get("state", {}).get("caller")
                    reply = error_reply(error, Request(scope), caller)
                    reply.headers[REQUEST_ID], status = name, reply.status_code
                    await reply(scope, receive, send)
                    return
            elif streaming and not message.get("more_body", False):
                streaming = False
                await self._store_end(scope, "done")
            await send(message)

        metrics = self._service.metrics
        metrics.open.inc()
        try:
            await self._app(scope, receive, sent)
        finally:
            if streaming:
                await self._store_end(scope, "cut off")
            seconds, route = time.perf_counter() - begun, self._route_of(scope)
            metrics.open.dec()
            metrics.requests.labels(route, str(status)).inc()
            metrics.seconds.labels(route).observe(seconds)
            if status < 400:
                end_outages(route)
            if request_log.isEnabledFor(logging.INFO):
                caller = scope.get("state", {}).get("caller")  # if the access check let it in
                facts = {
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "seconds": round(seconds, 4),
                    "key": "" if caller is None else caller.name,
                }
                request_log.info("request", extra={"request": facts})
            REQUEST.reset(token)

    def _route_of(self, scope: Scope) -> str:
        """The pattern of a request's route, also of one refused before it; ``other`` if none.

        It is not the path: that may hold anything.
        """
        taken = scope.get("route")
        matching = (
            route
            for route in _flat(self._routes.routes)
            if getattr(route, "path", "") and route.matches(scope)[0] is Match.FULL
        )
        return str(getattr(taken or next(matching, None), "path", "other"))

    async def _store_end(self, scope: Scope, outcome: str) -> None:
        try:
            await self._store(scope, 200, outcome)
        except RagwrightError as error:
            log.error("the end of a stream is not in the audit log: %s", error)

    async def _store(self, scope: Scope, status: int, outcome: str = "") -> None:
        event = self._event(scope, status, outcome)
        if event is None or not self._service.audits:
            return
        await self._service.audit.store(event)

    def _event(self, scope: Scope, status: int, outcome: str) -> Event | None:
        """The event of a request, None where it did nothing that is kept."""
        state = scope.get("state", {})
        caller: Caller | None = state.get("caller")
        note: Note = state.get("refused") or (Note() if caller is None else caller.note)
        route = getattr(scope.get("route"), "path", "other")
        if scope.get("root_path", "").endswith(_TOOLS):
            route = _TOOLS
        kind = _kind_of(scope, route, status, note)
        if kind is None:
            return None
        subject = note.subject or "/".join(map(str, scope.get("path_params", {}).values()))
        if kind == "sign-in failed":
            minute, more = int(time.monotonic() // 60), 0
            if minute != self._minute:
                more = max(0, self._count - _FLOOD)
                self._minute, self._count = minute, 0
            self._count += 1
            if self._count > _FLOOD:
                return None
            subject = f"{more} more before this one were not stored" if more else subject
        identity = None if caller is None else caller.identity
        return Event(
            kind=kind,
            who=note.who or ("" if identity is None else identity.name),
            role=note.role or ("" if identity is None else identity.role),
            origin=_origin(scope, self._service.options.proxy),
            request=request_id(),
            configuration=note.configuration,
            action=f"{scope['method']} {scope['path'] if route == 'other' else route}"[:200],
            outcome=outcome or note.outcome or _outcome(kind, status),
            subject=subject[:500],
            documents=tuple(note.documents),
            question=note.question,
            scope="" if identity is None else identity.scope,
        )


def _kind_of(scope: Scope, route: str, status: int, note: Note) -> EventKind | None:
    if status == 401 and note.kind is None:
        return (
            "sign-in failed"
            if any(name in (b"authorization", b"x-api-key") for name, _ in scope["headers"])
            else None
        )
    usual: EventKind | None = None
    if route not in _SAID_INSIDE and scope["method"] not in _READING:
        usual = "asked" if route in _ASKED else "changed"
    elif route not in _SAID_INSIDE | _NO_EVENT:
        usual = "saw"
    if status in _NO_RIGHT and note.kind != "sign-in failed":
        return "refused" if usual or note.kind or status != 404 else None
    return note.kind or usual


def _outcome(kind: EventKind, status: int) -> str:
    if kind == "refused" or status in _NO_RIGHT:
        return "refused"
    return "done" if status < 400 else "failed"


def _origin(scope: Scope, proxy: ProxyOptions) -> str:
    """Address that a request came from: behind known proxies the one that they name."""
    client: Any = scope.get("client")
    address: str = client[0] if client else ""
    values = [v.decode("latin-1") for n, v in scope["headers"] if n == b"x-forwarded-for"]
    for named in reversed([part.strip() for value in values for part in value.split(",")]):
        if not proxy.trusts(address):
            return address
        try:
            address = str(ipaddress.ip_address(named))
        except ValueError:
            return address
    return address
