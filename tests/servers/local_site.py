"""A web site on this machine that answers what a test tells it to."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from ragwright.flow import Fetch
from ragwright.ingest import Fetched, FetchHandler, FetchOptions


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


class Site:
    """Routes by path, and what was asked for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.routes: dict[str, Route] = {}
        self.asked: list[Asked] = []


@contextmanager
def running_site(context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site on a free port of 127.0.0.1, over TLS with a context, closed at the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {k.lower(): v for k, v in self.headers.items()}
            site.asked.append(Asked(parts.path, query, headers))
            route = site.routes.get(parts.path, Answer("not here", 404))
            answer = route if isinstance(route, Answer) else route(query)
            time.sleep(answer.delay)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            sent = {"Content-Type": "text/plain", **answer.headers}
            for name, value in sent.items():
                self.send_header(name, value)
            if answer.status != 304:
                length = len(body) + (100 if answer.cut else 0)
                if "Transfer-Encoding" not in sent:
                    self.send_header("Content-Length", sent.get("X-Length", str(length)))
            self.end_headers()
            try:
                for piece in [body[i : i + 1] for i in range(len(body))] if answer.drip else [body]:
                    self.wfile.write(piece)
                    self.wfile.flush()
                    time.sleep(answer.drip)
            except OSError:
                pass  # the client hung up, as tests of limits expect

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site = Site(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


OPEN = FetchOptions(open_networks=("127.0.0.1/32",))
"""This machine is open to tests by its usual address only."""


def fetch_bytes(url: str) -> Fetched:
    """What the workbench gives to readers: one fetch, through the real handler."""
    import asyncio

    async def once() -> Fetched:
        handler = FetchHandler(OPEN)
        try:
            reply = await handler.send(Fetch(url))
        finally:
            await handler.aclose()
        return Fetched(reply.url, reply.headers.get("content-type", ""), reply.body)

    return asyncio.run(once())
