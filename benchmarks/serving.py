"""The HTTP server beside the same searches in process, and what it adds to a model server.

    OMP_NUM_THREADS=1 python -m benchmarks.serving [--rows 100000] [--seconds 20] [--publish]

Documents and vectors are those of `benchmarks.scale`; query vectors are made from the query's
hash, so that no embedding model is measured. The client is a bare HTTP client on asyncio in a
process of its own: on two cores it takes its share of them, on both sides of a comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.scale import BLOCK, Matrix, blocks
from ragwright import Workbench
from ragwright.models import Embedder
from ragwright.testing import Reply, ScriptedServer

EMBEDDER = "benchmarks.serving:HashedEmbedder"
RATE = 30.0
CLIENTS = 64


class HashedEmbedder(Embedder):
    """A vector for each text, from its hash alone: as if all vectors were given."""

    identity = "hashed"
    dimensions = 384

    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        """One row a text; a query is a random unit vector."""
        seeds = [zlib.crc32(text.encode()) for text in texts]
        rows = [np.random.default_rng(s).standard_normal(384, np.float32) for s in seeds]
        made = np.stack(rows)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


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
        store, spec = bench.project.store, bench.project.pair
        for batch in blocks(rows):
            store.upsert(spec, batch)
        bench.retrieve("warm")


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[str]:
    """The command in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragwright", "serve", "--port", "0", "-C", str(folder), *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    address = re.search(r"http://\S+", process.stderr.readline())
    assert address is not None
    try:
        yield address[0]
    finally:
        process.terminate()
        process.wait()


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
        found = re.search(rb"content-length: (\d+)", header, re.IGNORECASE)
        assert found is not None
        return await self._reader.readexactly(int(found[1]))

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

    async def one(number: int) -> None:
        due = begin + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        connection = idle.pop() if idle else await Connection(address).open()
        await connection.post("/v1/retrieve", {"query": query(number)})
        times.append(time.perf_counter() - due)
        idle.append(connection)

    await asyncio.gather(*(one(number) for number in range(int(RATE * seconds))))
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


def _apart(work: Callable[..., object], *given: object) -> object:
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(work, *given).result()


def _open_loop(address: str, seconds: float) -> list[float]:
    return asyncio.run(open_loop(address, seconds))


def _closed_loop(address: str, seconds: float, clients: int) -> tuple[float, list[float]]:
    return asyncio.run(closed_loop(address, seconds, clients))


def chat_overhead(folder: Path) -> tuple[float, float]:
    """Milliseconds p50 that the server adds to the model server's own, and to its first token."""
    script = Reply("Every two years [1]. " * 10, pace=0.002)
    with ScriptedServer.spawn(script) as model:
        build(folder, BLOCK, f"answer: {{model: '{model.url}#writer'}}\n")
        with served(folder) as address:
            direct = asyncio.run(_chats(model.url, "/v1", "writer"))
            through = asyncio.run(_chats(address, "/v1", "bench"))
    return tuple(  # type: ignore[return-value]
        (statistics.median(t[at] for t in through) - statistics.median(t[at] for t in direct)) * 1e3
        for at in (0, 1)
    )


async def _chats(address: str, prefix: str, model: str) -> list[tuple[float, float]]:
    """(whole, first token) in seconds of fifty streamed answers."""
    import openai

    found = []
    async with openai.AsyncOpenAI(base_url=address + prefix, api_key="x", max_retries=0) as api:
        for number in range(60):
            start, first = time.perf_counter(), 0.0
            stream = await api.chat.completions.create(
                model=model, messages=[{"role": "user", "content": query(number)}], stream=True
            )
            async for piece in stream:
                if not first and piece.choices and piece.choices[0].delta.content:
                    first = time.perf_counter() - start
            found.append((time.perf_counter() - start, first))
    return found[10:]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores; {chosen.rows:,} rows")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        build(folder, chosen.rows)
        inside = in_process(folder, chosen.seconds)
        print(f"  runner.map        {inside:8.0f} searches a second", flush=True)
        with served(folder) as address:
            _apart(_closed_loop, address, 2.0, 4)  # warm
            times = _apart(_open_loop, address, chosen.seconds)
            assert isinstance(times, list)
            print(
                f"  open loop         p50 {percentile(times, 0.5):.1f} ms, "
                f"p99 {percentile(times, 0.99):.1f} ms at {RATE:g} a second",
                flush=True,
            )
            made = _apart(_closed_loop, address, chosen.seconds, CLIENTS)
            assert isinstance(made, tuple)
            rate, times = made
            bound = 2 * CLIENTS / rate * 1e3
            print(
                f"  {CLIENTS} clients        {rate:8.0f} a second = {rate / inside:.2f} of "
                f"runner.map; p99 {percentile(times, 0.99):.0f} ms of {bound:.0f}",
                flush=True,
            )
        whole, first = chat_overhead(Path(temporary) / "chat")
        print(f"  chat              {whole:+.1f} ms p50 whole, {first:+.1f} ms to the first token")


if __name__ == "__main__":
    main()
