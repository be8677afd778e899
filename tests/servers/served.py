"""A project served over HTTP, in a thread of the tests' process: a real port, the real app."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import uvicorn
from small_project import ingested

from ragwright.project import ProjectFolder
from ragwright.serve import ServedProject, ServeKey, ServeKeys, make_app
from ragwright.testing import ScriptedServer

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of servers without TLS: else each reads the machine's certificates, for 75 ms."""

HANDBOOK = "serve: {name: handbook, personas: [engineer, marketing]}\n"
BOTH = {"accept": "application/json, text/event-stream"}
"""What a client of MCP accepts."""


def asks(*turns: str, **more: Any) -> dict[str, Any]:
    """The body of a chat request: what a user and an assistant say in turn, and other fields."""
    roles = ("user", "assistant")
    said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(turns)]
    return {"messages": said, **more}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def written_by(model: ScriptedServer, more: str = "") -> str:
    """Settings of a project whose answers a model writes; ``more`` of the section ``answer``."""
    return f"answer: {{model: '{model.url}#writer'{more}}}\n"


def key(folder: Path, name: str, role: Any = "reader", **rights: Any) -> str:
    return ServeKeys(ProjectFolder(folder)).add(ServeKey(name, role, **rights), again=True)


class Running:
    """A running server."""

    def __init__(self, address: str, folder: Path, stack: ExitStack) -> None:
        self.address = address
        self.folder = folder
        self.stack = stack
        self.http = self.client()

    def client(self, key: str = "") -> httpx2.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        made = httpx2.Client(base_url=self.address, headers=headers, timeout=20, verify=PLAIN)
        return self.stack.enter_context(made)

    def openai(self, key: str = "none") -> openai.OpenAI:
        http = openai.DefaultHttpxClient(verify=PLAIN)
        address = f"{self.address}/v1"
        made = openai.OpenAI(base_url=address, api_key=key, max_retries=0, http_client=http)
        return self.stack.enter_context(made)

    def ask(self, *turns: str, key: str = "", **more: object) -> httpx2.Response:
        client = self.client(key) if key else self.http
        return client.post("/v1/chat/completions", json=asks(*turns, **more))

    def tool(self, name: str, key: str = "", **arguments: object) -> httpx2.Response:
        client = self.client(key) if key else self.http
        return client.post("/mcp/", json=calls(name, **arguments), headers=BOTH)

    @contextmanager
    def link(self, *turns: str, body: bytes = b"") -> Iterator[socket.socket]:
        """A connection that has asked for a stream, or sent the beginning of 4,000 bytes."""
        length, sent = (4000, body) if body else (0, json.dumps(asks(*turns, stream=True)).encode())
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        head += "content-type: application/json\r\n"
        head += f"content-length: {length or len(sent)}\r\n\r\n"
        host, _, port = self.address.removeprefix("http://").partition(":")
        with socket.socket() as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.settimeout(60)
            made.connect((host, int(port)))
            made.sendall(head.encode() + sent)
            yield made

    def metric(self, name: str) -> float:
        line = rf"^{re.escape(name)} (\S+)$"
        found = re.search(line, self.http.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@contextmanager
def served(
    folder: Path,
    *overrides: str,
    own: bool = True,
    watch: float = 0.05,
    body: float = 60,
    gives_way: float = 10,
    port: int = 0,
) -> Iterator[Running]:
    app = make_app(ServedProject(folder, overrides, own, watch, body, gives_way))
    config = uvicorn.Config(
        app, port=port, log_level="critical", timeout_graceful_shutdown=5, proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with ExitStack() as stack:
            yield Running(f"http://127.0.0.1:{port}", folder, stack)
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def handbook(folder: Path, more: str = "", *overrides: str, **files: str) -> Iterator[Running]:
    with served(ingested(folder, HANDBOOK + more, **files), *overrides) as running:
        yield running
