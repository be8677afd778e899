"""An HTTP server that sends exactly the bytes a test gives it, whatever was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Raw:
    """One reply; a body in pieces is sent as chunks, for as long as the client reads."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Script: TypeAlias = Callable[[str, Any], Raw]
"""From the path and the parsed body of a request to its reply."""


@dataclass
class RawServer:
    """A running server: its base address, what it answers, every body and authorization it got."""

    url: str
    script: Script
    bodies: list[Any] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)


def chat_reply(text: str = "It is 15000 km [1].", **more: Any) -> bytes:
    """The body of a sound chat reply; ``more`` is added to it."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more}).encode()


def events(*chunks: Any) -> Raw:
    """Server-sent events: each chunk as JSON, or as the text it is."""
    lines = [c if isinstance(c, str | bytes) else json.dumps(c) for c in (*chunks, "[DONE]")]
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    return Raw(b"".join(b"data: " + line + b"\n\n" for line in raw), kind="text/event-stream")


class QuietHandler(BaseHTTPRequestHandler):
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that hang up."""


@contextmanager
def serving(handler: Any, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The free local port on which a handler serves for a while, over TLS with a context."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def raw_server(script: Script | Raw) -> Iterator[RawServer]:
    play = (lambda _path, _body: script) if isinstance(script, Raw) else script

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            made.bodies.append(body)
            made.tokens.append(self.headers["authorization"])
            reply = made.script(self.path, body)
            with suppress(BrokenPipeError, ConnectionResetError):
                self.answer(reply)

        def answer(self, reply: Raw) -> None:
            head = {"Content-Type": reply.kind, **reply.headers}
            if isinstance(reply.body, bytes):
                self.begin(reply.status, {**head, "Content-Length": str(len(reply.body))})
                self.wfile.write(reply.body)
                return
            self.begin(reply.status, {**head, "Transfer-Encoding": "chunked"})
            for piece in reply.body:
                self.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    with serving(Handler) as port:
        made = RawServer(f"http://127.0.0.1:{port}/v1", play)
        yield made
