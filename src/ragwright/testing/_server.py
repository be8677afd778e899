"""A scripted model server: real HTTP, the OpenAI protocol, with scripted replies and faults.

It runs on its own thread (:class:`ScriptedServer`) for tests, or in its own process
(:meth:`ScriptedServer.spawn`) for benchmarks, so that its CPU is not counted with the client's.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import struct
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal, Self, TypeAlias

from ._protocol import error_body, frames, reply_body

Malformed: TypeAlias = Literal[
    "",
    "json",
    "no_choices",
    "empty",
    "html",
    "null_content",
    "error_in_200",
    "cut_stream",
    "quiet_cut",
    "error_event",
    "reset",
    "hang",
]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answers to one request.

    Attributes:
        text: Text of the completion.
        status: HTTP status; from 400 up the body is ``error``.
        delay: Seconds before the first byte.
        held: The reply waits, before its delay, until this is set; None for no such wait.
        pace: Seconds between the pieces of a stream.
        headers: Further headers (``Retry-After``).
        finish: Finish reason.
        usage: Prompt and completion tokens, None to leave the usage out; (-1, -1) counts
            four characters a token.
        error: Body of an error reply, or its message.
        vectors: Vectors of an embeddings reply, else they are made from the words.
        malformed: The way in which the reply breaks the protocol: not ``json``, without
            choices (``no_choices``), an ``empty`` body, an ``html`` page, content null
            (``null_content``), an error under status 200 (``error_in_200``), broken off
            (``cut_stream``), ended without a finish reason (``quiet_cut``) or by an error in
            the stream (``error_event``), connection ``reset``, or no reply (``hang``).
    """

    text: str = "ok"
    status: int = 200
    delay: float = 0.0
    held: threading.Event | None = None
    pace: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    usage: tuple[int, int] | None = (-1, -1)
    error: Mapping[str, Any] | Sequence[Any] | str = ""
    vectors: Sequence[Sequence[float]] | None = None
    malformed: Malformed = ""

    @classmethod
    def rate_limited(cls, retry_after: str | None = None, header: str = "Retry-After") -> Reply:
        """Status 429, with a waiting time in the named header."""
        headers = {} if retry_after is None else {header: retry_after}
        return cls(status=429, headers=headers, error=error_body("slow down", "rate_limit"))

    @classmethod
    def unsupported(cls, param: str, advice: str = "") -> Reply:
        """Status 400 as OpenAI words it for a parameter the model does not take."""
        message = f"Unsupported parameter: '{param}' is not supported with this model. {advice}"
        return cls(status=400, error=error_body(message.strip(), "unsupported_parameter", param))

    @classmethod
    def too_long(cls) -> Reply:
        """Status 400 for a prompt longer than the context window."""
        message = "This model's maximum context length is 8192 tokens; you sent 9000."
        return cls(status=400, error=error_body(message, "context_length_exceeded", "messages"))

    @classmethod
    def unknown_model(cls, name: str = "nowhere") -> Reply:
        """Status 404 for a model the server does not have."""
        return cls(
            status=404, error=error_body(f"The model '{name}' does not exist", "model_not_found")
        )

    @classmethod
    def bad_key(cls) -> Reply:
        """Status 401."""
        return cls(status=401, error=error_body("Incorrect API key provided", "invalid_api_key"))

    @classmethod
    def quota(cls) -> Reply:
        """Status 429 for an account without credit; waiting does not help."""
        return cls(status=429, error=error_body("You exceeded your quota", "insufficient_quota"))


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request as the server saw it; ``in_flight`` counts it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    in_flight: int

    @property
    def prompt(self) -> str:
        """Text of the last message, of the raw prompt, or of the first input."""
        body = self.body if isinstance(self.body, dict) else {}
        if body.get("messages"):
            return str(body["messages"][-1]["content"])
        prompt = body.get("prompt", body.get("input", ""))
        return str(prompt[0] if isinstance(prompt, list) and prompt else prompt)


Script: TypeAlias = str | Reply | Sequence[str | Reply] | Callable[[ServerRequest], "str | Reply"]
"""One reply for ever, replies in order (the last repeats), or a function of the request."""


_PORTS: set[int] = set()


def _listener() -> socket.socket:
    """A socket that listens on a port which no earlier server of this process had.

    Replies are stored by address, so a second server there would get the replies of the first.
    """
    while True:
        # with the protocol named, asyncio sends each piece at once (TCP_NODELAY)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        if port not in _PORTS:
            _PORTS.add(port)
            listener.listen(1024)
            return listener
        listener.close()


class ScriptedServer:
    """A server on a free local port; a context manager.

    Args:
        script: What it answers; read on the server's thread, so a function must be quick.
        models: Names that the models list holds.
        record: Keep every request in ``requests``; off for benchmarks.

    Attributes:
        url: Base address, ending in ``/v1``.
        requests: Every request, in order of arrival.
        max_in_flight: Most requests that were open at once.
    """

    def __init__(
        self, script: Script = "ok", *, models: Sequence[str] = ("scripted",), record: bool = True
    ) -> None:
        self.script = script
        self.models = tuple(models)
        self.record = record
        self.requests: list[ServerRequest] = []
        self.count = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self._position = 0
        self._loop = asyncio.new_event_loop()
        self._connections: set[_Connection] = set()
        self._socket = _listener()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted-server", daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), sock=self._socket, backlog=1024)
        )
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        server.close()
        for connection in list(self._connections):
            connection.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def close(self) -> None:
        """Stop the server and close open connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, script: Script) -> None:
        """Replace the script."""
        self._position = 0
        self.script = script

    def reply(self, request: ServerRequest) -> Reply:
        """The script's answer to a request."""
        script = self.script
        if isinstance(script, str | Reply):
            reply: str | Reply = script
        elif callable(script):
            reply = script(request)
        else:
            reply = script[min(self._position, len(script) - 1)]
            self._position += 1
        return Reply(reply) if isinstance(reply, str) else reply

    def stats(self) -> dict[str, int]:
        """Number of requests, and most that were open at once."""
        return {"count": self.count, "max_in_flight": self.max_in_flight}

    @staticmethod
    def spawn(script: Script = "ok", *, record: bool = False) -> SpawnedServer:
        """The same server in a process of its own; the script must be picklable."""
        return SpawnedServer(script, record)


class SpawnedServer:
    """A scripted server in its own process; a context manager with ``url`` and ``stats()``."""

    def __init__(self, script: Script, record: bool) -> None:
        context = multiprocessing.get_context("spawn")
        near, far = context.Pipe()
        self._pipe = near
        self._process = context.Process(target=_serve, args=(script, record, far), daemon=True)
        self._process.start()
        far.close()
        self.url: str = near.recv()

    def stats(self) -> dict[str, int]:
        """Number of requests, and most that were open at once."""
        with urllib.request.urlopen(f"{self.url}/scripted/stats", timeout=10) as reply:  # noqa: S310
            return dict(json.load(reply))

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(script: Script, record: bool, pipe: Connection) -> None:
    with ScriptedServer(script, record=record) as server:
        pipe.send(server.url)
        try:
            pipe.recv()
        except EOFError:
            pass


_STREAMED = {"", "cut_stream", "quiet_cut", "error_event"}


class _Connection(asyncio.Protocol):
    """One client connection: HTTP/1.1 with keep-alive, one request at a time."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.pending: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self.busy = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server._connections.discard(self)
        if self.pending is not None:
            self.pending.cancel()
        self.done()

    def abort(self) -> None:
        """Close at once, with a reset if the peer is still connected."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.busy:
            self.next_request()

    def next_request(self) -> None:
        """Answer the first request of the buffer once it is complete."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(self.buffer) < end + 4 + length:
            return
        raw = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        method, path, _ = first.split(" ", 2)
        if path.endswith("/scripted/stats"):
            self.write(200, json.dumps(self.server.stats()).encode())
            return
        server = self.server
        self.busy = True
        server.count += 1
        server.in_flight += 1
        server.max_in_flight = max(server.max_in_flight, server.in_flight)
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw
        request = ServerRequest(method, path, headers, body, server.in_flight)
        if server.record:
            server.requests.append(request)
        self.answer(request, server.reply(request))

    def done(self) -> None:
        """Count the request as answered."""
        if self.busy:
            self.busy = False
            self.server.in_flight -= 1

    def answer(self, request: ServerRequest, reply: Reply) -> None:
        """Send the reply after its delay."""
        if reply.malformed == "hang":
            return
        stream = isinstance(request.body, dict) and request.body.get("stream") is True
        if reply.held is not None and not reply.held.is_set():
            self.pending = self.server._loop.call_later(0.005, self.answer, request, reply)
        elif stream and reply.status == 200 and reply.malformed in _STREAMED:
            self.pending = self.server._loop.create_task(self.stream(request, reply))
        elif reply.delay > 0:
            self.pending = self.server._loop.call_later(reply.delay, self.finish, request, reply)
        else:
            self.finish(request, reply)

    def finish(self, request: ServerRequest, reply: Reply) -> None:
        """Send a reply that is not streamed; returns what arrived meanwhile."""
        self.pending = None
        if reply.malformed == "reset":
            self.abort()
            return
        status, body, kind = reply_body(request, reply, self.server.models)
        self.write(status, body, reply.headers, kind, cut=reply.malformed == "cut_stream")
        self.done()
        if self.buffer:
            self.next_request()

    def write(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        kind: str = "application/json",
        *,
        cut: bool = False,
    ) -> None:
        """Write one reply; ``cut`` breaks off in the middle of the body."""
        more = "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items())
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n{more}\r\n"
        )
        self.transport.write(head.encode("latin-1") + (body[: len(body) // 2] if cut else body))
        if cut:
            self.transport.close()

    async def stream(self, request: ServerRequest, reply: Reply) -> None:
        """Send the reply as server-sent events."""
        await asyncio.sleep(reply.delay)
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for frame in frames(request, reply):
            self.transport.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
            await asyncio.sleep(reply.pace)
        self.pending = None
        if reply.malformed == "cut_stream":
            self.transport.close()
            return
        self.transport.write(b"0\r\n\r\n")
        self.done()
        if self.buffer:
            self.next_request()
