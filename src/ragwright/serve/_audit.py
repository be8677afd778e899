"""The audit log of a server: what each request did, stored before its reply is sent."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import RagwrightError
from ..jobs import Event, EventKind
from ._admission import Caller
from ._errors import error_reply, log, request_id
from ._identity import Note
from ._options import ProxyOptions
from ._service import Service

_KINDS: Mapping[tuple[str, str], EventKind] = {
    **dict.fromkeys(
        (
            ("POST", "/"),
            ("POST", "/ask/stream"),
            ("POST", "/retrieval"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/drafts"),
            ("POST", "/v1/embeddings"),
            ("POST", "/v1/responses"),
            ("POST", "/v1/retrieve"),
            ("POST", "/v1/score"),
        ),
        "asked",
    ),
    **dict.fromkeys(
        (
            ("GET", "/compare"),
            ("GET", "/experiments/{run}"),
            ("GET", "/outputs"),
            ("GET", "/outputs/{name}"),
            ("GET", "/source"),
            ("GET", "/source/beside"),
            ("GET", "/sources"),
            ("GET", "/testsets/{name}"),
        ),
        "saw",
    ),
}
"""What a request to a route does; any other that is not read by GET changes something."""

_NO_EVENT: Mapping[str, str] = {
    "/": "a form",
    "/experiments": "names of runs, and their figures",
    "/healthz": "whether the process runs",
    "/login": "a form",
    "/metrics": "counters",
    "/openapi.json": "describes the interface",
    "/readyz": "whether it can answer",
    "/static/{name}": "files of the program",
    "/testsets": "names of test sets, and counts",
    "/v1/models": "names of configurations and personas",
    "/v1/models/{name:path}": "a name",
}
"""Routes that are read without an event -> what they show, which is no stored text."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_FLOOD = 120
"""Most events a minute of requests with a wrong key; others are counted."""

_TOOLS = "/mcp"
"""Where agents call tools."""

_SAID_INSIDE = frozenset({"/login", "/logout", _TOOLS, "other"})
"""Routes whose events are those that their handlers tell, if any."""

_NO_RIGHT = frozenset({401, 403, 404, 421})
_STREAM = b"text/event-stream"


def route_events(app: Starlette) -> dict[str, str]:
    """What each route of an app leaves in the audit log: method and route -> kind, or why nothing.

    It is empty for a route of which nobody has decided it.
    """
    events = {}
    for route in _flat(app.routes):
        path = getattr(route, "path", "")
        for method in sorted(getattr(route, "methods", None) or ("GET",)):
            if path == _TOOLS or path in _SAID_INSIDE:
                kind: str | None = "as its handler says"
            elif method in _READING:
                kind = _KINDS.get((method, path)) or _NO_EVENT.get(path)
            else:
                kind = _KINDS.get((method, path), "changed")
            if method != "HEAD":
                events[f"{method} {path}"] = kind or ""
    return events


def find_route(app: Starlette, scope: Scope) -> str:
    """The pattern of the route that a request would have taken; ``other`` if there is none."""
    for route in _flat(app.routes):
        if getattr(route, "path", "") and route.matches(scope)[0] is Match.FULL:
            return str(route.path)
    return "other"


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes with those of included routers, which have no prefix here."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from (route,) if included is None else _flat(included.routes)


class Flood:
    """Bounds the events a minute of requests with a wrong secret, which anybody can send."""

    def __init__(self) -> None:
        self._minute = 0
        self._count = 0
        self._left_out = 0

    def admits(self, most: int) -> bool:
        """Count an event; False where there were too many of this minute."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        if self._count > most:
            self._left_out += 1
            return False
        return True

    def left_out(self) -> str:
        """How many were left out since this was asked last, as a remark; empty for none."""
        count, self._left_out = self._left_out, 0
        return f"{count} more before this one were not stored" if count else ""


class AuditMiddleware:
    """ASGI middleware: stores what each request did before its reply is sent.

    Where the log cannot be written and the settings say to wait for it, the reply is an error.
    A stream is stored twice: as begun before its first byte, and as it ended before its last.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._flood = Flood()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        streaming = replaced = False

        async def sent(message: Message) -> None:
            nonlocal streaming, replaced
            if replaced:
                return
            if message["type"] == "http.response.start":
                streaming = any(
                    name == b"content-type" and value.startswith(_STREAM)
                    for name, value in message["headers"]
                )
                outcome = "begun" if streaming else ""
                try:
                    await self._store(scope, message["status"], outcome)
                except RagwrightError as error:
                    replaced, streaming = True, False
                    log.error("not answered, since the audit log cannot be written: %s", error)
                    caller = scope.get("state", {}).get("caller")
                    await error_reply(error, Request(scope), caller)(scope, receive, send)
                    return
            elif streaming and not message.get("more_body", False):
                streaming = False
                await self._store_end(scope, "done")
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            if streaming:
                await self._store_end(scope, "cut off")

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
            if not self._flood.admits(_FLOOD):
                return None
            subject = self._flood.left_out() or subject
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
    usual = _KINDS.get((scope["method"], route))
    if status in _NO_RIGHT and note.kind != "sign-in failed":
        return "refused" if usual or note.kind or status != 404 else None
    if note.kind is not None:
        return note.kind
    if usual is None and scope["method"] not in _READING and route not in _SAID_INSIDE:
        return "changed"
    return usual


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
