"""The log of the server: one line per event, as text or as JSON, with the id of its request."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LogForm: TypeAlias = Literal["warnings", "requests", "json"]

REQUEST_ID = "x-request-id"
"""Header that carries the id of a request, from a proxy to the server and in every reply."""

_REQUEST: ContextVar[str] = ContextVar("ragwright_request", default="")
_GIVEN = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_OURS = ("ragwright", "uvicorn")

log = logging.getLogger("ragwright.requests")


def request_id() -> str:
    """The id of the request that is being answered; empty outside one."""
    return _REQUEST.get()


def log_to_stderr(form: LogForm) -> None:
    """Write the records of this program and its server to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    log.setLevel(logging.WARNING if form == "warnings" else logging.INFO)


class Logged:
    """ASGI middleware: gives each request an id, returns it in a header, and logs the request.

    The id of a proxy (``x-request-id``) is kept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id = dict(scope["headers"]).get(REQUEST_ID.encode(), b"").decode("latin-1")
        name = sent_id if _GIVEN.fullmatch(sent_id) else secrets.token_hex(8)
        token = _REQUEST.set(name)
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
            if log.isEnabledFor(logging.INFO):
                log.info("request", extra={"request": _request_facts(scope, status, begun)})
            _REQUEST.reset(token)


def _request_facts(scope: Scope, status: int, begun: float) -> dict[str, Any]:
    caller = scope.get("state", {}).get("caller")  # where the door let it in
    return {
        "method": scope["method"],
        # The pattern, not the path: a path may hold anything.
        "route": getattr(scope.get("route"), "path", "other"),
        "status": status,
        "seconds": round(time.perf_counter() - begun, 4),
        "key": "" if caller is None else caller.name,
    }


def _record_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class _Text(logging.Formatter):
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
