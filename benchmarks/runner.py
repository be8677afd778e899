"""Overhead of the runner: against the bare SDK on a slow server, and bare calls on local work.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.runner [--calls 4000] [--rounds 3]

The server runs in a process of its own. Ways are interleaved and medians are printed; the
targets are those of the specification: wall at most 1.15 of the floor, at most 0.5 ms of
client CPU a call over the bare SDK loop. Matrices use one thread, so that their threads are not
measured.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragwright.core import RagwrightError, rank_best
from ragwright.flow import (
    BatchHandler,
    Flow,
    Message,
    Replies,
    Runner,
    RunnerOptions,
    Search,
    SearchReply,
    chat,
    gather,
    send,
)
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer

CONCURRENCY = 64
LATENCY = 0.1
DIMENSIONS = 384
ROWS = 5_000


def bare_sdk(url: str, calls: int) -> None:
    """The shortest loop anyone would write: workers over one client of the SDK."""
    import openai

    async def work() -> None:
        client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        numbers = iter(range(calls))

        async def worker() -> None:
            for number in numbers:
                reply = await client.chat.completions.create(
                    model="scripted",
                    messages=[{"role": "user", "content": f"question {number}"}],
                )
                assert reply.choices[0].message.content

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        await client.close()

    asyncio.run(work())


def through_runner(url: str, calls: int, folder: Path | None) -> None:
    """The same calls as flows; with a folder every reply is committed before it is seen."""

    def ask(number: int) -> Flow[str]:
        return (yield from chat(f"{url}#scripted", [Message("user", f"question {number}")])).text

    replies = None if folder is None else Replies(folder / f"{time.monotonic_ns()}.db")
    options = RunnerOptions(concurrency=CONCURRENCY)
    with Runner(model_handlers(Models()), options, replies=replies) as runner:
        assert all(runner.map((ask(i) for i in range(calls)), limit=2 * CONCURRENCY))
    if replies is not None:
        replies.close()


def measured(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds of this process, all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def chats(calls: int, rounds: int) -> None:
    """Calls of a fixed latency against a server in its own process."""
    floor = calls / CONCURRENCY * LATENCY
    timings: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedServer.spawn(Reply("a reply of some words", delay=LATENCY)) as server,
    ):
        ways: dict[str, Callable[[], None]] = {
            "openai SDK, bare loop": lambda: bare_sdk(server.url, calls),
            "runner, nothing kept": lambda: through_runner(server.url, calls, None),
            "runner, replies committed": lambda: through_runner(server.url, calls, Path(folder)),
        }
        bare_sdk(server.url, CONCURRENCY)  # imports and first connections are not compared
        through_runner(server.url, CONCURRENCY, None)
        for _ in range(rounds):
            for name, work in ways.items():
                timings.setdefault(name, []).append(measured(work))
    print(f"{calls} calls of {LATENCY * 1000:g} ms at {CONCURRENCY} at once, floor {floor:.2f} s")
    bare = statistics.median(cpu for _, cpu in timings["openai SDK, bare loop"])
    for name, times in timings.items():
        wall = statistics.median(w for w, _ in times)
        cpu = statistics.median(c for _, c in times)
        print(
            f"  {name:27} wall {wall:6.2f} s = {wall / floor:.3f} of the floor, "
            f"CPU {cpu / calls * 1000:.3f} ms a call ({(cpu - bare) / calls * 1000:+.3f})"
        )


class Index(BatchHandler[Search, SearchReply]):
    """An exact search over a small matrix: the size of work one hybrid query does."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self.vectors = chance.standard_normal((ROWS, DIMENSIONS), dtype=np.float32)
        self.ids = [f"chunk-{i}" for i in range(ROWS)]

    def durable(self, request: Search) -> bool:
        """Searches are never kept."""
        return False

    def search(self, request: Search) -> SearchReply:
        """The best ten by dot product; the keyword channel stands in with a hashed vector."""
        if request.channel == "dense":
            query = np.frombuffer(request.vector, dtype=np.float32)
        else:
            seed = sum(request.text.encode())
            query = np.random.default_rng(seed).standard_normal(DIMENSIONS, dtype=np.float32)
        scores = self.vectors @ query
        best = np.argpartition(-scores, 10)[:10]
        return SearchReply(tuple(rank_best(((self.ids[i], float(scores[i])) for i in best), 10)))

    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        """Each request in turn."""
        return [self.search(request) for request in requests]


def hybrids(queries: int, rounds: int) -> None:
    """Two searches a query, fused: bare function calls, ``run`` and ``map``."""
    index = Index()
    vectors = np.random.default_rng(1).standard_normal((queries, DIMENSIONS), dtype=np.float32)
    turn = iter(range(10**9))

    def fused(channels: Sequence[Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for candidates in channels:
            for rank, (key, _) in enumerate(candidates, 1):
                scores[key] = scores.get(key, 0.0) + 1 / (60 + rank)
        return rank_best(scores.items(), 10)

    def bare(snapshot: str, number: int) -> list[tuple[str, float]]:
        text, vector = f"query {number}", vectors[number].tobytes()
        keyword = index.search(Search(snapshot, "keyword", 10, text=text))
        dense = index.search(Search(snapshot, "dense", 10, vector=vector))
        return fused([keyword.candidates, dense.candidates])

    def flow(snapshot: str, number: int) -> Flow[list[tuple[str, float]]]:
        replies = yield from gather(
            send(Search(snapshot, channel, 10, **query), SearchReply)
            for channel, query in (
                ("keyword", {"text": f"query {number}"}),
                ("dense", {"vector": vectors[number].tobytes()}),
            )
        )
        return fused([reply.candidates for reply in replies])

    def loop(ask: Callable[[str, int], Any]) -> None:
        snapshot = str(next(turn))  # a new one each time, so that nothing is remembered
        for number in range(queries):
            ask(snapshot, number)

    timings: dict[str, list[float]] = {}
    with Runner({Search: index}) as runner:
        assert bare("x", 0) == runner.run(flow("x", 0))

        def mapped() -> None:
            snapshot = str(next(turn))
            list(runner.map(flow(snapshot, i) for i in range(queries)))

        ways: dict[str, Callable[[], None]] = {
            "bare function calls": lambda: loop(bare),
            "runner.run, one by one": lambda: loop(lambda s, n: runner.run(flow(s, n))),
            "runner.map": mapped,
        }
        for _ in range(rounds):
            for name, work in ways.items():
                timings.setdefault(name, []).append(measured(work)[0])
    print(f"{queries} hybrid queries over {ROWS} rows of {DIMENSIONS} dimensions")
    base = statistics.median(timings["bare function calls"])
    for name, times in timings.items():
        each = statistics.median(times) / queries * 1000
        print(f"  {name:27} {each:.3f} ms a query ({each - base / queries * 1000:+.3f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    chats(options.calls, options.rounds)
    hybrids(options.queries, options.rounds)
