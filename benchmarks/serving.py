"""The HTTP server beside the same searches in process, a LangChain service, and a model server.

    python -m benchmarks.peers.install                       # once
    OMP_NUM_THREADS=1 python -m benchmarks.serving [--rows 100000] [--seconds 20] [--publish]

Documents and vectors are those of `benchmarks.scale`; query vectors are made from the query's
hash, so that no embedding model is measured. The client is a bare HTTP client on asyncio in a
process of its own; it shares the two cores with the server, on both sides of a comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import numpy as np

from benchmarks.hashed import DIMENSIONS, hashed
from benchmarks.peers.install import peers_python
from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines
from benchmarks.scale import BLOCK, Matrix, blocks
from ragwright import Workbench
from ragwright.models import Embedder
from ragwright.testing import Reply, ScriptedServer

EMBEDDER = "benchmarks.serving:HashedEmbedder"
T = TypeVar("T")
RATE = 30.0
CLIENTS = 64
LOG_LINES = 100


class HashedEmbedder(Embedder):
    """A vector for each text, from its hash alone: as if all vectors were given."""

    identity = "hashed"
    dimensions = DIMENSIONS

    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        """One row a text; a query is a random unit vector."""
        return hashed(texts)


def query(number: int) -> str:
    """Three words of the vocabulary and the name of a document."""
    rng = np.random.default_rng(number)
    words = [f"w{n:05d}"[::-1] for n in rng.integers(20, 3000, 3)]
    return f"{' '.join(words)} d{number % 1000:07d}"


def build(folder: Path, rows: int, settings: str = "") -> None:
    """A project whose index holds the rows."""
    folder.mkdir(parents=True)
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs/]\nserve: {{name: bench, keep_answers: false}}\n"
        f"embed: {{model: hashed}}\nretrieve: {{top_k: 10}}\n"
        f"models: {{hashed: {{backend: '{EMBEDDER}'}}}}\n{settings}",
        "utf-8",
    )
    with Workbench.open(folder) as bench:
        store, spec = bench.project.store, bench.project.index_spec
        for batch in blocks(rows):
            store.upsert(spec, batch)
        bench.retrieve("warm")


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[str, int]]:
    """The command in a process of its own: its address, and the number of the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", "serve", "--port", "0", "-C", str(folder), *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    address = re.search(r"http://\S+", process.stderr.readline())
    assert address is not None
    # A server whose log nobody reads stops when the pipe is full.
    logs = threading.Thread(target=deque, args=(process.stderr, LOG_LINES), daemon=True)
    logs.start()
    try:
        yield address[0], process.pid
    finally:
        process.terminate()
        process.wait()
        logs.join()
        process.stderr.close()


@contextlib.contextmanager
def langchain_served(folder: Path, rows: int) -> Iterator[str]:
    """The service over LangChain's EnsembleRetriever with the same texts and vectors."""
    python = peers_python()
    folder.mkdir()
    texts, matrices = [], []
    for batch in blocks(rows):
        texts += [indexed.document.text for indexed in batch]
        matrices += [indexed.vectors for indexed in batch if indexed.vectors is not None]
    (folder / "texts.json").write_text(json.dumps(texts), "utf-8")
    np.save(folder / "vectors.npy", np.concatenate(matrices))
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port = link.getsockname()[1]
    process = subprocess.Popen(
        [
            str(python if python.is_file() else sys.executable),
            *("-m", "benchmarks.peers.ensemble_service", str(folder), str(port)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", "install the peers first"
        address = f"http://127.0.0.1:{port}"
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class Connection:
    """One kept-alive HTTP/1.1 connection; posts JSON and reads replies with a length."""

    def __init__(self, address: str) -> None:
        self._host = urlsplit(address).netloc

    async def open(self) -> Connection:
        """Connect."""
        host, _, port = self._host.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def post(self, path: str, body: object) -> bytes:
        """The reply's body; an error status ends the benchmark."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        header = await self._reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in header.partition(b"\r\n")[0], header
        match = re.search(rb"content-length: (\d+)", header, re.IGNORECASE)
        assert match is not None
        return await self._reader.readexactly(int(match[1]))

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


def percentile(times: Sequence[float], share: float) -> float:
    """Milliseconds."""
    return float(np.quantile(times, share)) * 1e3


async def open_loop(address: str, seconds: float) -> list[float]:
    """Seconds from the moment a request was due until its reply, at a fixed rate."""
    idle: list[Connection] = []
    times: list[float] = []
    begin = time.perf_counter() + 0.5

    async def send_when_due(number: int) -> None:
        due = begin + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        connection = idle.pop() if idle else await Connection(address).open()
        await connection.post("/v1/retrieve", {"query": query(number)})
        times.append(time.perf_counter() - due)
        idle.append(connection)

    await asyncio.gather(*(send_when_due(number) for number in range(int(RATE * seconds))))
    return times


async def closed_loop(address: str, seconds: float, clients: int) -> tuple[float, list[float]]:
    """Requests a second of so many clients that each wait for their reply, and its times."""
    times: list[float] = []
    begin = time.perf_counter()

    async def client(number: int) -> None:
        connection = await Connection(address).open()
        asked = number * 100_000
        while time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            await connection.post("/v1/retrieve", {"query": query(asked)})
            times.append(time.perf_counter() - start)
            asked += 1
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return len(times) / (time.perf_counter() - begin), times


def in_process(folder: Path, seconds: float) -> float:
    """Searches a second of ``runner.map`` over the same flows, as many at once."""
    with Workbench.open(folder) as bench:
        bench.retrieve("warm")
        begin, done = time.perf_counter(), 0

        def flows() -> Iterator[object]:
            number = 50_000_000
            while time.perf_counter() - begin < seconds:
                yield bench.retrieve_flow(query(number))
                number += 1

        for _ in bench.project.runner.map(flows(), limit=CLIENTS):  # type: ignore[arg-type]
            done += 1
        return done / (time.perf_counter() - begin)


def _apart(work: Callable[..., T], *given: object) -> T:
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(work, *given).result()


def _open_loop(address: str, seconds: float) -> list[float]:
    return asyncio.run(open_loop(address, seconds))


def _closed_loop(address: str, seconds: float, clients: int) -> tuple[float, list[float]]:
    return asyncio.run(closed_loop(address, seconds, clients))


def chat_overhead(folder: Path) -> tuple[float, float, float]:
    """Milliseconds p50: what the server adds to the model server's own time and to its first
    token, and the search alone, in process.
    """
    script = Reply("Every two years [1]. " * 10, pace=0.002)
    with ScriptedServer.spawn(script) as model:
        build(folder, BLOCK, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder) as (address, _):
            direct = asyncio.run(_chats(model.url, "/v1", "writer"))
            through = asyncio.run(_chats(address, "/v1", "bench"))
    whole, token = (
        (statistics.median(t[at] for t in through) - statistics.median(t[at] for t in direct)) * 1e3
        for at in (0, 1)
    )
    return whole, token, _searching(folder)


def _searching(folder: Path) -> float:
    """Milliseconds p50 of the searches of the same questions, in process."""
    times = []
    with Workbench.open(folder) as bench:
        for number in range(60):
            start = time.perf_counter()
            bench.retrieve(query(number))
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[10:])


async def _chats(address: str, prefix: str, model: str) -> list[tuple[float, float]]:
    """(whole, first token) in seconds of fifty streamed answers."""
    import openai

    times = []
    async with openai.AsyncOpenAI(base_url=address + prefix, api_key="x", max_retries=0) as api:
        for number in range(60):
            start, first = time.perf_counter(), 0.0
            stream = await api.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": query(number)}],
                stream=True,
                # as our server asks its model: the scripted one paces the frame of usage, too
                stream_options={"include_usage": True},
            )
            async for piece in stream:
                if not first and piece.choices and piece.choices[0].delta.content:
                    first = time.perf_counter() - start
            times.append((time.perf_counter() - start, first))
    return times[10:]


Row = dict[str, Cell]


def row(what: str, measured: str, wanted: str = "") -> Row:
    """A row of the tables."""
    return {"what": what, "measured": measured, "wanted": wanted}


def retrieval(folder: Path, rows: int, seconds: float) -> list[Row]:
    """``/v1/retrieve`` beside ``runner.map``, two workers, and the LangChain service."""
    inside = in_process(folder, seconds)
    with served(folder) as (address, _):
        _apart(_closed_loop, address, 2.0, 4)  # warm
        paced = _apart(_open_loop, address, seconds)
        rate, times = _apart(_closed_loop, address, seconds, CLIENTS)
    with served(folder, "--workers", "2") as (address, _):
        time.sleep(5.0)  # both have opened the index
        _apart(_closed_loop, address, 2.0, 8)
        doubled, _ = _apart(_closed_loop, address, seconds, CLIENTS)
    with langchain_served(folder.with_name("langchain"), rows) as address:
        _apart(_closed_loop, address, 2.0, 1)
        theirs, _ = _apart(_closed_loop, address, seconds, CLIENTS)
    p50, p99 = percentile(paced, 0.5), percentile(paced, 0.99)
    slow, bound = percentile(times, 0.99), 2 * CLIENTS / rate * 1e3
    return [
        row(f"open loop at {RATE:g} a second, p50", f"{p50:.1f} ms"),
        row(f"open loop at {RATE:g} a second, p99", f"{p99:.1f} ms", "under 50 ms"),
        row("`runner.map` in process", f"{inside:.0f} a second"),
        row(
            f"{CLIENTS} clients",
            f"{rate:.0f} a second = {rate / inside:.2f} x `runner.map`",
            "at least .8 x",
        ),
        row(f"{CLIENTS} clients, p99", f"{slow:.0f} ms", f"at most {bound:.0f} ms"),
        row(f"{CLIENTS} clients, two workers", f"{doubled / rate:.2f} x one worker"),
        row("FastAPI over EnsembleRetriever", f"{theirs:.1f} a second"),
        row("ours to theirs", f"{rate / theirs:.1f} x", "at least 10 x"),
    ]


def chats(folder: Path) -> list[Row]:
    """What the server adds to a chat."""
    whole, token, search = chat_overhead(folder)
    return [
        row("chat, added to the model server's time, p50", f"{whole:+.1f} ms"),
        row(
            f"the same without the search ({search:.1f} ms)",
            f"{whole - search:+.1f} ms",
            "under 10 ms",
        ),
        row(
            "chat, first token after the model server's own, without the search",
            f"{token - search:+.1f} ms",
            "under 20 ms",
        ),
    ]


def main() -> None:
    """Measure and print; publish if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    chosen = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores before"
    print(load, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        build(folder, chosen.rows)
        searched = retrieval(folder, chosen.rows, chosen.seconds)
        around = chats(Path(temporary) / "chat")
    section = Section(
        "The server under load",
        [
            Table(searched, f"`/v1/retrieve` on {chosen.rows:,} chunks, hybrid, ten hits"),
            Table(around, "Chat"),
        ],
        [
            "Loopback; server, client and model server are processes of one machine and share its "
            f"cores ({load}). Ratios were measured one after the other in one run.",
            "The service beside it holds the same texts and vectors in LangChain's BM25Retriever "
            "and FAISS (exact), with equal weights.",
            "The chat model is scripted: figures are what the server adds to it.",
        ],
        "OMP_NUM_THREADS=1 python -m benchmarks.serving --publish",
        page="serving",
    )
    print("\n".join(section_lines(section)))
    if chosen.publish:
        print(publish("serving", section))


if __name__ == "__main__":
    main()
