"""A web site on this machine that answers what a test tells it to."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from raw_server import QuietHandler, serving

from ragwright.flow import Fetch, FetchReply
from ragwright.ingest import FetchHandler, FetchOptions, Resolve, resolve


@dataclass
class Answer:
    """What a path answers; ``drip`` sends the body byte by byte with that pause."""

    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    cut: bool = False


Route = Answer | Callable[[dict[str, str]], Answer]


@dataclass
class Asked:
    """A request that came: its path, its query and its headers in lower case."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class Site:
    port: int = 0
    routes: dict[str, Route] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running_site(context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site on a free port of 127.0.0.1, over TLS with a context, closed at the end."""
    site = Site()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            headers = {k.lower(): v for k, v in self.headers.items()}
            site.asked.append(Asked(parts.path, query, headers))
            route = site.routes.get(parts.path, Answer("not here", 404))
            answer = route if isinstance(route, Answer) else route(query)
            time.sleep(answer.delay)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            sent = {"Content-Type": "text/plain", **answer.headers}
            if answer.status != 304:
                sent["Content-Length"] = str(len(body) + 100 * answer.cut)
            self.begin(answer.status, sent)
            with suppress(OSError):  # the client hung up, as tests of limits expect
                for piece in [body[i : i + 1] for i in range(len(body))] if answer.drip else [body]:
                    self.wfile.write(piece)
                    time.sleep(answer.drip)

    with serving(Handler, context) as site.port:
        yield site


OPEN = FetchOptions(open_networks=("127.0.0.1/32",))
"""This machine is open to tests by its usual address only."""


def get(
    request: Fetch | str, options: FetchOptions = OPEN, resolver: Resolve = resolve
) -> FetchReply:
    async def once() -> FetchReply:
        handler = FetchHandler(options, resolver)
        try:
            return await handler.send(Fetch(request) if isinstance(request, str) else request)
        finally:
            await handler.aclose()

    return asyncio.run(once())


def fetch_bytes(url: str) -> FetchReply:
    return get(url)
