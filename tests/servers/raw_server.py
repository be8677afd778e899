"""An HTTP server that sends exactly the bytes a test gives it, whatever was asked."""

from __future__ import annotations

import json
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
    """A running server: its base address, what it answers, and every body it got."""

    url: str
    script: Script
    bodies: list[Any] = field(default_factory=list)


def chat_reply(text: str = "It is 15000 km [1].", **more: Any) -> bytes:
    """The body of a sound chat reply; ``more`` is added to it."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more}).encode()


def events(*chunks: Any) -> Raw:
    """Server-sent events: each chunk as JSON, or as the text it is."""
    lines = [c if isinstance(c, str | bytes) else json.dumps(c) for c in (*chunks, "[DONE]")]
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    return Raw(b"".join(b"data: " + line + b"\n\n" for line in raw), kind="text/event-stream")


@contextmanager
def raw_server(script: Script | Raw) -> Iterator[RawServer]:
    """A server on a free local port, for a while."""
    play = (lambda _path, _body: script) if isinstance(script, Raw) else script

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            made.bodies.append(body)
            reply = made.script(self.path, body)
            with suppress(BrokenPipeError, ConnectionResetError):
                self.answer(reply)

        def answer(self, reply: Raw) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if isinstance(reply.body, bytes):
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in reply.body:
                self.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Say nothing of clients that hang up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made = RawServer(f"http://127.0.0.1:{server.server_port}/v1", play)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
