"""A project served over HTTP, in a thread of the tests' process: a real port, the real app."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import openai
import uvicorn

from ragwright.serve import ServedProject, make_app

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of servers without TLS: else each reads the machine's certificates, for 75 ms."""


class Running:
    """A running server.

    Attributes:
        address: Its address.
        http: A client without a key.
        stack: Closes clients when the server ends.
    """

    def __init__(self, address: str, stack: ExitStack) -> None:
        self.address = address
        self.stack = stack
        self.http = self.client()

    def client(self, key: str = "") -> httpx2.Client:
        """A client that sends this key."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        made = httpx2.Client(base_url=self.address, headers=headers, timeout=20, verify=PLAIN)
        return self.stack.enter_context(made)

    def openai(self, key: str = "none") -> openai.OpenAI:
        """OpenAI's client."""
        http = openai.DefaultHttpxClient(verify=PLAIN)
        address = f"{self.address}/v1"
        made = openai.OpenAI(base_url=address, api_key=key, max_retries=0, http_client=http)
        return self.stack.enter_context(made)

    def ask(self, question: str, **more: object) -> httpx2.Response:
        """Ask by the plain HTTP client."""
        body = {"messages": [{"role": "user", "content": question}], **more}
        return self.http.post("/v1/chat/completions", json=body)


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
    """A server of the project."""
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
            yield Running(f"http://127.0.0.1:{port}", stack)
    finally:
        server.should_exit = True
        thread.join(20)
