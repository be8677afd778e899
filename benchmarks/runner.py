"""Overhead of the runner: against the bare SDK on a slow server.

    python -m benchmarks.runner [--calls 4000] [--rounds 3]

The server runs in a process of its own. Ways are interleaved and medians are printed; the
targets are those of the specification: wall at most 1.15 of the floor, at most 0.5 ms of
client CPU a call over the bare SDK loop.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ragwright.flow import Flow, Message, Replies, Runner, RunnerOptions, chat
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer

CONCURRENCY = 64
LATENCY = 0.1


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    chats(options.calls, options.rounds)
