"""The log of the server: one line per event, as text or as JSON, with the id of its request."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ._options import LogForm

REQUEST_ID = "x-request-id"
"""Header that carries the id of a request, from a proxy to the server and in every reply."""

_REQUEST: ContextVar[str] = ContextVar("ragwright_request", default="")
_ROUTE: ContextVar[Callable[[], str]] = ContextVar("ragwright_route", default=str)
_GIVEN = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_OURS = ("ragwright", "uvicorn")
log = logging.getLogger("ragwright.requests")
serve_log = logging.getLogger("ragwright.serve")


def request_id() -> str:
    """The id of the request that is being answered; empty outside one."""
    return _REQUEST.get()


def log_to_stderr(form: LogForm) -> None:
    """Write the records of this program and its server to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _TextFormat())
    logging.captureWarnings(True)
    logging.getLogger().handlers = [handler]  # what libraries say has the same form
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    log.setLevel(logging.WARNING if form == "warnings" else logging.INFO)


@dataclass(slots=True)
class _Outage:
    since: float
    routes: set[str] = field(default_factory=set)
    requests: int = 0


OUTAGES: dict[tuple[str, str], _Outage] = {}
"""Faults of what this process needs, by code and place: one line when one begins and one when a
route that it had stopped replies again, however many requests meet it."""


def meet_outage(code: str, error: Exception) -> None:
    """Count a request that failed; the first one of a fault is logged."""
    key, route = (code, str(getattr(error, "where", "") or "")), _ROUTE.get()()
    if key not in OUTAGES:
        serve_log.warning("%s on %s: %s", code, route or "a stream", error)
    outage = OUTAGES.setdefault(key, _Outage(time.monotonic()))
    outage.routes.add(route)
    outage.requests += 1


def _end_outages(route: str) -> None:
    for key, outage in [*OUTAGES.items()]:
        if route in outage.routes:
            del OUTAGES[key]
            serve_log.warning(
                "%s has ended: %s replies again after %d failed requests in %.0f s",
                key[0], route, outage.requests, time.monotonic() - outage.since,
            )  # fmt: skip


class LogMiddleware:
    """ASGI middleware: gives each request an id, returns it in a header, and logs the request.

    The id of a proxy (``x-request-id``) is kept.

    Args:
        app: What answers.
        find_route: Finds the route of a request that was refused before it was routed.
    """

    def __init__(self, app: ASGIApp, find_route: Callable[[Scope], str]) -> None:
        self._app = app
        self._find_route = find_route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id = dict(scope["headers"]).get(REQUEST_ID.encode(), b"").decode("latin-1")
        name = sent_id if _GIVEN.fullmatch(sent_id) else secrets.token_hex(8)
        token = _REQUEST.set(name)

        def route() -> str:  # the pattern, not the path: a path may hold anything
            return getattr(scope.get("route"), "path", "") or self._find_route(scope)

        _ROUTE.set(route)
        status, begun = 500, time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                id_header = (REQUEST_ID.encode(), name.encode())
                message = {**message, "headers": [*message["headers"], id_header]}
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            if status < 400 and OUTAGES:
                _end_outages(route())
            if log.isEnabledFor(logging.INFO):
                caller = scope.get("state", {}).get("caller")  # where the door let it in
                facts = {
                    "method": scope["method"],
                    "route": route(),
                    "status": status,
                    "seconds": round(time.perf_counter() - begun, 4),
                    "key": "" if caller is None else caller.name,
                }
                log.info("request", extra={"request": facts})
            _REQUEST.reset(token)


def _record_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class _TextFormat(logging.Formatter):
    """``TIME LEVEL REQUEST MESSAGE``; an exception is one line: its last frame and its text."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "request", None)
        message = record.getMessage()
        if facts is not None:
            message = " ".join(f"{name}={value}" for name, value in facts.items() if value != "")
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            frames = traceback.extract_tb(error.__traceback__)
            place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
            message = f"{message}: {type(error).__name__}: {error}{place}"
        words = (_record_time(record), record.levelname, request_id() or "-", message)
        return " ".join(" ".join(words).split())


class _Json(logging.Formatter):
    """One JSON object: ``time``, ``level``, ``logger``, ``request_id``, ``message`` or facts."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "request", None)
        body = {
            "time": _record_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": request_id(),
            "message": record.getMessage(),
            **(facts or {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            body["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(body, ensure_ascii=False)
