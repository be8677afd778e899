"""``GET /metrics``: what Prometheus reads."""

from __future__ import annotations

import os
import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import Usage

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
            "ragwright_tokens",
            "Tokens of calls to models.",
            ("kind",),
            registry=self._registry,
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


class MetricsMiddleware:
    """ASGI middleware that counts requests and their time, by route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        begun = time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.open.inc()
        try:
            await self._app(scope, receive, sent)
        finally:
            # The pattern, not the path: a path may hold anything.
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.open.dec()
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - begun)
