"""The log of the server: one line per event, as text or as JSON, with the id of its request."""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ..core import (
    BudgetStopped,
    ConfigError,
    DatabaseError,
    FilterError,
    MeasureError,
    MissingExtraError,
    MissingKeyError,
    ModelError,
    ModelTimeoutError,
    PromptError,
    PromptTooLongError,
    RagwrightError,
    RateLimitedError,
    RetrieveError,
    SnapshotGoneError,
    StoppedError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
    TestsetError,
)
from ._options import LogForm

REQUEST_ID = "x-request-id"
"""Header that carries the id of a request, from a proxy to the server and in every reply."""

REQUEST: ContextVar[str] = ContextVar("ragwright_request", default="")
ROUTE: ContextVar[Callable[[], str]] = ContextVar("ragwright_route", default=str)
_OURS = ("ragwright", "uvicorn")
request_log = logging.getLogger("ragwright.requests")
log = logging.getLogger("ragwright.serve")


def request_id() -> str:
    """The id of the request that is being answered; empty outside one."""
    return REQUEST.get()


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
    request_log.setLevel(logging.WARNING if form == "warnings" else logging.INFO)


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
    key, route = (code, str(getattr(error, "where", "") or "")), ROUTE.get()()
    if key not in OUTAGES:
        log.warning("%s on %s: %s", code, route or "a stream", error)
    outage = OUTAGES.setdefault(key, _Outage(time.monotonic()))
    outage.routes.add(route)
    outage.requests += 1


def end_outages(route: str) -> None:
    """Log the end of the outages that a route met, since it replies again."""
    for key, outage in [*OUTAGES.items()]:
        if route in outage.routes:
            del OUTAGES[key]
            log.warning(
                "%s has ended: %s replies again after %d failed requests in %.0f s",
                key[0], route, outage.requests, time.monotonic() - outage.since,
            )  # fmt: skip


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
        body = {
            "time": _record_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": request_id(),
            "message": record.getMessage(),
            **(getattr(record, "request", None) or {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            body["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(body, ensure_ascii=False)


KNOWLEDGE = "/retrieval"
"""Path of Dify's external knowledge API."""

_CLIENT_GONE = 499
"""Status in the metrics of requests that their clients gave up."""


class ApiError(HTTPException):
    """An error reply, sent to a client instead of a result.

    Args:
        status: HTTP status.
        message: One sentence, and what to do.
        code: OpenAI's code, or one of ours.
        param: The parameter that is wrong.
        retry_after: Seconds after which it may work; None where repeating does not help.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        *,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The JSON that OpenAI's clients read."""
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        usual = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind.get(self.status, usual),
                "param": self.param,
                "code": self.code or None,
                "request_id": request_id() or None,
            }
        }

    def advice(self) -> dict[str, str]:
        """Headers: whether and when a client should repeat the request by itself.

        The runner has repeated what may succeed already, so that a client's own repeats would
        only pay twice.
        """
        if self.status == 401:
            return {"www-authenticate": "Bearer", "x-should-retry": "false"}
        if self.retry_after is None:
            return {"x-should-retry": "false"}
        return {"retry-after": str(max(1, math.ceil(self.retry_after))), "x-should-retry": "true"}


class ClientGoneError(Exception):
    """The client closed the connection; nobody reads a reply."""


class ErrorDetail(BaseModel):
    """The error."""

    message: str
    type: str
    param: str | None
    code: str | None
    request_id: str | None


class ErrorBody(BaseModel):
    """OpenAI's shape of an error."""

    error: ErrorDetail


class KnowledgeError(BaseModel):
    """Dify's shape of an error: 1001, 1002 or 2001, else the HTTP status."""

    error_code: int
    error_msg: str


def describe_errors(
    *states: int, model: type[BaseModel] = ErrorBody
) -> dict[int | str, dict[str, Any]]:
    """Errors of an endpoint in the description of the API, with those of the access check."""
    return {state: {"model": model} for state in (400, 401, 403, 408, 413, 421, 500, *states)}


_STATES: Sequence[tuple[type[RagwrightError], int, str]] = (
    (PromptTooLongError, 400, "context_length_exceeded"),
    (RateLimitedError, 503, "model_overloaded"),
    (ModelTimeoutError, 504, "model_timeout"),
    (MissingKeyError, 500, "model_not_configured"),
    (ModelError, 502, "model_error"),
    (BudgetStopped, 429, "insufficient_quota"),
    (StoppedError, 503, "stopping"),
    (DatabaseError, 502, "database_error"),
    (FilterError, 400, "invalid_filter"),
    (RetrieveError, 400, "retrieval_refused"),
    (PromptError, 400, "invalid_prompt"),
    (MeasureError, 400, "invalid_measure"),
    (TestsetError, 400, "invalid_rows"),
    (StoreBusyError, 503, "busy"),
    (StoreUnreachableError, 503, "database_away"),
    (StoreFullError, 507, "disk_full"),
    (SnapshotGoneError, 503, "busy"),
    (StoreError, 500, "store_error"),
    (MissingExtraError, 501, "not_installed"),
    (ConfigError, 400, "invalid_value"),
)
_PASSING = frozenset({"model_overloaded", "stopping", "busy", "database_away"})


_FOR_READERS = {
    "model_overloaded": "the model that answers is overloaded",
    "model_timeout": "the model that answers took too long",
    "model_error": "the model that answers failed",
    "model_not_configured": "the model that answers is not configured",
    "database_error": "the database behind this question failed",
    "database_away": "the database of this server cannot be reached",
    "disk_full": "the disk of this server is full",
    "store_error": "what this server stores cannot be read",
    "not_installed": "this server lacks a package that the request needs",
}
"""Messages to all but owners instead of addresses, paths and settings, by code."""


def api_error(error: Exception, caller: Any = None) -> ApiError:
    """The answer to a client for an error.

    What is the server's fault is logged whole. Readers, and callers who are not known (None), learn
    no address, path or setting from it, and a key with filters nothing of what other keys may see.
    """
    if isinstance(error, ApiError):
        return error
    if caller is not None and caller.narrowed and isinstance(error, FilterError):
        message = "no passage that this key may see meets the filters"
        return ApiError(400, message, "invalid_filter")
    if isinstance(error, TimeoutError):
        return ApiError(504, "the answer took longer than serve.timeout allows", "timeout")
    for kind, status, code in _STATES:
        if isinstance(error, kind):
            message = f"{error.what}; {error.hint}" if error.hint else error.what
            if status >= 500:
                meet_outage(code, error)
                if (caller is None or not caller.owner) and code in _FOR_READERS:
                    message = f"{_FOR_READERS[code]}; the server's log says more"
                    if request_id():
                        message += f" (request {request_id()})"
            return ApiError(status, message, code, retry_after=2.0 if code in _PASSING else None)
    number = request_id() or secrets.token_hex(6)
    log.error("request failed (%s)", number, exc_info=error)
    return ApiError(500, f"internal error {number}: see the server's log", "internal_error")


def error_reply(error: Exception, request: Request, caller: Any = None) -> JSONResponse:
    """The HTTP reply for an error, in the shape of the interface; see :func:`api_error`."""
    reply = api_error(error, caller)
    if request.scope["path"] == KNOWLEDGE:
        return _knowledge_reply(reply, request)
    return JSONResponse(reply.body(), reply.status, reply.advice())


def _knowledge_reply(error: ApiError, request: Request) -> JSONResponse:
    """An error as Dify reads it: it tells a wrong key by 403 alone, and knows three codes."""
    status = 403 if error.status == 401 else error.status
    code = {403: 1002, 404: 2001}.get(status, status)
    if error.status == 401 and not bears_secret(request):
        code = 1001
    body = {"error_code": code, "error_msg": error.message}
    advice = ApiError(status, error.message, retry_after=error.retry_after).advice()
    return JSONResponse(body, status, advice)


def bears_secret(request: Request) -> bool:
    """True where a program sent a key or token; browsers add Basic credentials by themselves."""
    return request.headers.get("authorization", "").lower().startswith("bearer ")


def install_errors(app: FastAPI, error_page: Callable[[Request, ApiError], Response]) -> None:
    """Answer every error of an app in the shape of its interface, that of a page as a page."""

    async def reply(request: Request, error: Exception) -> Response:
        caller = request.state.caller
        headers = getattr(error, "headers", None) or {}
        if isinstance(error, ClientGoneError):
            return Response(status_code=_CLIENT_GONE)
        if isinstance(error, RequestValidationError):
            error = _validation_reply(error.errors())
        elif isinstance(error, HTTPException) and not isinstance(error, ApiError):
            fault = _PLAIN.get(str(error.detail), str(error.detail))
            error = ApiError(error.status_code, fault, "http_error")
        shown = "text/html" in request.headers.get("accept", "")
        route = request.scope.get("route")
        if getattr(route, "response_class", HTMLResponse if shown else None) is HTMLResponse:
            return error_page(request, api_error(error, caller))
        response = error_reply(error, request, caller)
        response.headers.update(headers)
        return response

    kinds = (ClientGoneError, RagwrightError, TimeoutError, RequestValidationError, HTTPException)
    for kind in (*kinds, Exception):
        app.add_exception_handler(kind, reply)


_PLAIN = {
    "Not Found": "there is nothing at this address; /openapi.json lists those of the API",
    "Method Not Allowed": "this address takes other methods; the header `allow` lists them",
    "There was an error parsing the body": "the body cannot be read; send JSON in UTF-8, without "
    "deep nesting and without numbers of thousands of digits",
}
"""What the frameworks say, in words that say what to do."""

_NAME = re.compile(r"[A-Za-z_]\w*|\d+")
_TYPES = frozenset({"str", "int", "float", "bool", "dict", "list"})
"""Parts of places that name one of several types that a value may have."""


def _validation_reply(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    first = errors[0]
    if first["type"] == "json_invalid":
        fault = f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        return ApiError(400, fault, "invalid_value")
    if tuple(first["loc"]) == ("body",) and first["type"] in ("model_attributes_type", "missing"):
        fault = "send a JSON object, with the header content-type: application/json"
        return ApiError(400, fault, "invalid_value")
    # Where a value may have several types, the one that was read furthest is meant.
    deepest = max(errors, key=lambda error: len(_place(error)))
    where, fault = ".".join(_place(deepest)), deepest["msg"].removeprefix("Value error, ")
    return ApiError(
        400, f"{where}: {fault}" if where else fault, "invalid_value", param=where or None
    )


def _place(error: Mapping[str, Any]) -> list[str]:
    """The names and numbers that lead to a wrong value, without ``body`` or ``query``."""
    names = [str(part) for part in error["loc"][1:]]
    return [name for name in names if _NAME.fullmatch(name) and name not in _TYPES]
