"""Requests and costs under each key: shared by all workers, kept over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from anyio import CapacityLimiter
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from .. import __version__
from ..core import RagwrightError, StoreError, Usage, require
from ..flow import (
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    Rerank,
    Search,
    SearchReply,
    TraceEntry,
)
from ..ledger import Connection, Ledger, Place
from ._errors import ApiError, log, request_id

T = TypeVar("T")

_KEPT_MINUTES = 10


Budgets: TypeAlias = Sequence[tuple[str | None, float]]
"""Budgets of today (UTC): a key, or None for all of them, and its amount."""


class Charges:
    """Requests and spend per key, in the ledger; its writer does what is asked for, in order.

    Args:
        place: The ledger of the project; a shared one counts for the servers of all machines.
    """

    def __init__(self, place: Place) -> None:
        self._ledger = Ledger(place)
        self._writer = self._ledger.writer  # opened here, not at the first request
        self._unstored: dict[tuple[str, str], Usage] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Store what is queued and close the ledger; safe to call twice."""
        self._ledger.close()

    def charge(self, key: str, usage: Usage) -> None:
        """Count what a call cost; from any thread, at once.

        What cannot be stored (a full disk) is kept in memory, counts, and is stored later.
        """
        account = (key, _utc_day())
        with self._lock:
            costs, self._unstored = self._unstored, {}
        costs[account] = costs.get(account, Usage()) + usage
        with contextlib.suppress(StoreError):  # closed
            self._writer.submit(partial(_add_costs, costs)).add_done_callback(
                partial(self._keep_unstored, costs)
            )

    def _keep_unstored(self, costs: dict[tuple[str, str], Usage], stored: Future[object]) -> None:
        error = stored.exception()
        if error is None:
            return
        with self._lock:
            for account, usage in costs.items():
                self._unstored[account] = self._unstored.get(account, Usage()) + usage
        log.error("spend is kept in memory, because it cannot be stored: %s", error)

    async def admit(self, key: str, per_minute: int) -> float:
        """Count a request of this minute; seconds to wait where there were too many, else 0."""
        now = time.time()
        minute = int(now // 60)

        def work(connection: Connection) -> bool:
            row = connection.execute(
                "INSERT INTO served_minutes VALUES (?, ?, 1) ON CONFLICT (key, minute) DO UPDATE "
                "SET requests = served_minutes.requests + 1 WHERE served_minutes.requests < ? "
                "RETURNING requests",
                (key, minute, per_minute),
            ).fetchone()
            if row is not None and row[0] == 1:
                old = "DELETE FROM served_minutes WHERE minute < ?"
                connection.execute(old, (minute - _KEPT_MINUTES,))
            return row is not None

        return 0.0 if await self._committed_result(work) else (minute + 1) * 60 - now

    async def require_left(self, budgets: Budgets) -> None:
        """Refuse where the calls of today have spent a budget.

        Raises:
            ApiError: 429.
        """
        _refuse_spent(await self._committed_result(partial(self._find_spent, budgets, _SPENT)))

    async def reserve(self, key: str, budgets: Budgets, seconds: float) -> str:
        """Hold for a request what calls under its key cost on average today; the name of it.

        So requests that begin at the same moment, on any machine, do not all find the last money
        of a budget.

        Args:
            key: Name of the key.
            budgets: Those that bound it.
            seconds: Time after which it counts no longer, if its process was killed.

        Raises:
            ApiError: 429; a budget is spent.
        """
        name, now, today = secrets.token_hex(12), time.time(), _utc_day()

        def work(connection: Connection) -> list[str | None]:
            connection.execute("DELETE FROM served_reserved WHERE ends < ?", (now,))
            spent = self._find_spent(budgets, (*_SPENT, *_HELD), connection)
            if not spent:
                calls, cost = connection.execute(
                    "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(cost), 0) FROM served_calls "
                    "WHERE day = ? AND key = ?",
                    (today, key),
                ).fetchone()
                row = (name, key, today, float(cost) / calls if calls else 0.0, now + seconds)
                connection.execute("INSERT INTO served_reserved VALUES (?, ?, ?, ?, ?)", row)
            return spent

        _refuse_spent(await self._committed_result(work))
        return name

    def _find_spent(
        self, budgets: Budgets, sums: Sequence[str], connection: Connection
    ) -> list[str | None]:
        """The budgets that are spent, by their keys."""
        today, spent = _utc_day(), []
        for key, most in budgets:
            condition, values = ("", [today]) if key is None else (" AND key = ?", [today, key])
            total = sum(
                float(connection.execute(f"{sum_} WHERE day = ?{condition}", values).fetchone()[0])
                for sum_ in sums
            )
            with self._lock:
                total += sum(
                    usage.cost or 0.0
                    for (account, day), usage in self._unstored.items()
                    if day == today and key in (None, account)
                )
            if total >= most:
                spent.append(key)
        return spent

    def release(self, reserved: str) -> None:
        """Give back what a request held; from any thread, at once."""
        ending = "DELETE FROM served_reserved WHERE name = ?"
        with contextlib.suppress(StoreError):  # closed: it ends by itself
            self._writer.submit(lambda c: c.execute(ending, (reserved,)).rowcount)

    async def _committed_result(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.wrap_future(self._writer.submit(work))


_SUMS = ", ".join(
    f"{name} = served_calls.{name} + excluded.{name}"
    for name in ("calls", "cost", "prompt_tokens", "completion_tokens")
)

_ADD = (
    "INSERT INTO served_calls VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608
    f"ON CONFLICT (key, day) DO UPDATE SET {_SUMS}"
)


def _add_costs(costs: dict[tuple[str, str], Usage], connection: Connection) -> None:
    for (key, day), usage in costs.items():
        counts = (usage.calls, usage.cost or 0.0, usage.prompt_tokens, usage.completion_tokens)
        connection.execute(_ADD, (key, day, *counts))


_SPENT = ("SELECT COALESCE(SUM(cost), 0) FROM served_calls",)
_HELD = ("SELECT COALESCE(SUM(amount), 0) FROM served_reserved",)


def _refuse_spent(budgets: Sequence[str | None]) -> None:
    for name in budgets:
        limit_owner = "the server's" if name is None else f"the key {name!r}'s"
        raise ApiError(429, f"{limit_owner} budget of today is spent", "insufficient_quota")


def _utc_day() -> str:
    return datetime.now(UTC).date().isoformat()


class Turns:
    """Limits on the requests that are worked on at once, and on those that wait for their turn."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)
        self._most = 1

    @property
    def taken(self) -> int:
        """The number of requests that are worked on now."""
        return self._limiter.borrowed_tokens

    def limit(self, at_once: int, waiting: int) -> None:
        """Set the limits; requests that have or wait for a turn keep their place."""
        self._limiter.total_tokens, self._most = at_once, waiting

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn; gives whether it had to wait.

        Raises:
            ApiError: 503, where too many wait already.
        """
        request, wait = object(), self._limiter.available_tokens <= 0
        if wait and self._limiter.statistics().tasks_waiting >= self._most:
            raise ApiError(
                503, "too many requests wait for an answer", "overloaded", retry_after=2.0
            )
        await self._limiter.acquire_on_behalf_of(request)
        try:
            yield wait
        finally:
            self._limiter.release_on_behalf_of(request)


FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that names the folder in which the workers of one server add up their numbers."""

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counters of one worker."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "ragwright_requests",
            "HTTP requests by route and status.",
            ("route", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "ragwright_request_seconds",
            "Seconds until the last byte of a reply.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.open = Gauge(
            "ragwright_requests_open",
            "Requests being answered.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self.tokens = Counter(
            "ragwright_tokens", "Tokens of calls to models.", ("kind",), registry=self._registry
        )
        self.cost = Counter(
            "ragwright_cost",
            "Money spent on calls to models, in the unit of the prices in ragwright.yaml.",
            registry=self._registry,
        )
        self.abstained = Counter(
            "ragwright_answers",
            "Answers by whether they abstained.",
            ("abstained",),
            registry=self._registry,
        )

    def answered(self, abstained: bool) -> None:
        """Count an answer."""
        self.abstained.labels(str(abstained).lower()).inc()

    def spent(self, usage: Usage) -> None:
        """Count what a call took; from any thread."""
        self.tokens.labels("prompt").inc(usage.prompt_tokens)
        self.tokens.labels("completion").inc(usage.completion_tokens)
        self.cost.inc(usage.cost or 0.0)

    def page(self) -> tuple[bytes, str]:
        """The page that Prometheus reads, and its media type; of all workers together."""
        registry = self._registry
        if os.environ.get(FOLDER):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


def forget_process(pid: int | None) -> None:
    """Count the open requests of a worker that has ended no longer."""
    if pid is not None:
        multiprocess.mark_process_dead(pid, os.environ[FOLDER])  # type: ignore[no-untyped-call]


if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Tracing:
    """Makes spans, where traces are on; else it does nothing and costs nothing."""

    def __init__(self) -> None:
        self._content = os.environ.get(_CONTENT, "").lower() == "true"
        self._provider: Any = None
        self._tracer = self._tracer_of()

    def _tracer_of(self) -> Tracer | None:
        wanted = any(os.environ.get(name) for name in _ADDRESSES)
        if importlib.util.find_spec("opentelemetry") is None:
            if wanted:
                require("opentelemetry.sdk", "otel", "sending traces")
            return None
        from opentelemetry import trace

        if wanted:
            self._provider = _exporting_provider()
            tracer: Tracer = self._provider.get_tracer("ragwright", __version__)
            return tracer
        if type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider":
            return None
        return trace.get_tracer("ragwright", __version__)

    def close(self) -> None:
        """Send what waits to be sent."""
        if self._provider is not None:
            self._provider.shutdown()

    @contextmanager
    def answering(
        self, operation: str, model: str, headers: Mapping[str, str]
    ) -> Iterator[list[TraceEntry] | None]:
        """A span around an answer; what it gives takes an entry for each request of the runner.

        A ``traceparent`` of the caller is the span's parent.
        """
        if self._tracer is None:
            yield None
            return
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind

        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": model,
            "ragwright.request_id": request_id(),
        }
        with self._tracer.start_as_current_span(
            f"{operation} {model}",
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,  # its message may repeat the prompt
            set_status_on_exception=False,
        ) as span:
            try:
                yield _Entries(self._tracer, span, self._content)
            except Exception as error:
                _mark_failed(span, error, self._content)
                raise


class _Entries(list[TraceEntry]):
    """A trace that turns each of its entries into a span as it comes."""

    def __init__(self, tracer: Tracer, parent: Span, content: bool) -> None:
        super().__init__()
        from opentelemetry.trace import set_span_in_context

        self._tracer = tracer
        self._context = set_span_in_context(parent)
        self._content = content

    def append(self, entry: TraceEntry, /) -> None:
        """Make a span of an entry; called on the runner's thread when its request has ended."""
        from opentelemetry.trace import SpanKind

        end = time.time_ns()
        name, attributes = _span_of_entry(entry, self._content)
        span = self._tracer.start_span(
            name,
            context=self._context,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - int(entry.seconds * 1e9),
        )
        if entry.error is not None:
            _mark_failed(span, entry.error, self._content)
        span.end(end)


def _mark_failed(span: Span, error: Exception, content: bool) -> None:
    """Mark a span as failed: model servers repeat the prompt in what they say of an error."""
    from opentelemetry.trace import Status, StatusCode

    message = error.what if isinstance(error, RagwrightError) else str(error)
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, message if content else None))


def _exporting_provider() -> Any:
    sdk = require("opentelemetry.sdk.trace", "otel", "sending traces")
    export = require("opentelemetry.sdk.trace.export", "otel", "sending traces")
    http = require(
        "opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel", "sending traces"
    )
    resources = require("opentelemetry.sdk.resources", "otel", "sending traces")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": "ragwright"}))
    provider.add_span_processor(export.BatchSpanProcessor(http.OTLPSpanExporter()))
    return provider


def _span_of_entry(entry: TraceEntry, content: bool) -> tuple[str, dict[str, Any]]:
    """Name and attributes of a request's span; texts only where ``content`` is wanted."""
    request, reply = entry.request, entry.reply
    name = type(request).__name__.lower()
    attributes: dict[str, Any] = {"ragwright.cached": entry.cached}
    if isinstance(request, Chat | Complete):
        operation = "chat" if isinstance(request, Chat) else "text_completion"
        name = f"{operation} {request.model}"
        attributes |= _model_attributes(operation, request.model)
        attributes |= {
            f"gen_ai.request.{key}": value
            for key, value in request.params
            if key in ("temperature", "max_tokens", "seed", "top_p") and value is not None
        }
        if isinstance(reply, ChatReply | CompleteReply):
            attributes["gen_ai.usage.input_tokens"] = reply.usage.prompt_tokens
            attributes["gen_ai.usage.output_tokens"] = reply.usage.completion_tokens
            attributes["gen_ai.response.finish_reasons"] = [reply.finish]
        if content and isinstance(request, Chat):
            turns = [(message.role, message.content) for message in request.messages]
            attributes["gen_ai.input.messages"] = _messages_json(turns)
            if isinstance(reply, ChatReply):
                attributes["gen_ai.output.messages"] = _messages_json([("assistant", reply.text)])
    elif isinstance(request, Search):
        name = f"retrieval {request.snapshot}"
        attributes |= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": request.snapshot,
            "gen_ai.retrieval.top_k": request.k,
            "ragwright.channel": request.channel,
            **({"gen_ai.retrieval.query.text": request.text} if content else {}),
        }
        if isinstance(reply, SearchReply):
            attributes["ragwright.candidates"] = len(reply.candidates)
    elif isinstance(request, Embed):
        name = f"embeddings {request.model}"
        attributes |= _model_attributes("embeddings", request.model)
    elif isinstance(request, Rerank):
        name = f"rerank {request.model}"
        attributes["ragwright.passages"] = len(request.passages)
    return name, attributes


def _model_attributes(operation: str, model: str) -> dict[str, Any]:
    provider, _, name = model.partition(":")
    known = name and provider not in ("http", "https")
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.request.model": model,
        "gen_ai.provider.name": provider if known else "openai",
    }


def _messages_json(turns: list[tuple[str, str]]) -> str:
    messages = [
        {"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns
    ]
    return json.dumps(messages, ensure_ascii=False)
