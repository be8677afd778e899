"""CPU and wall time of one chat call: ours against the bare openai SDK, in one run.

Run: ``python -m benchmarks.chat_client [--calls 2000] [--width 64]``. The server waits 100 ms
and runs in its own process, so the CPU is the client's alone. The floor of the wall time is
calls / width * 0.1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

from ragwright.flow import Chat, Message
from ragwright.models import Directory, OpenAIChat
from ragwright.testing import Reply, ScriptedServer

PROMPT = "What is this? " * 100
REQUEST = Chat("m", (Message("user", PROMPT),), (("max_tokens", 100), ("temperature", 0.0)))


async def timed(
    name: str, call: Callable[[], Awaitable[object]], calls: int, width: int
) -> tuple[str, float, float]:
    """Name, wall seconds and CPU milliseconds a call, after as many calls as run side by side."""
    turn = asyncio.Semaphore(width)

    async def call_in_turn() -> None:
        async with turn:
            await call()

    await asyncio.gather(*(call_in_turn() for _ in range(width)))
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call_in_turn() for _ in range(calls)))
    return name, time.perf_counter() - wall, (time.process_time() - cpu) / calls * 1e3


async def compare(url: str, calls: int, width: int) -> list[tuple[str, float, float]]:
    """The SDK's own call and ours, one after the other."""
    from openai import AsyncOpenAI

    sdk = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    ours = OpenAIChat(Directory().find(f"{url}#m"))

    async def bare() -> object:
        reply = await sdk.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": PROMPT}],
            max_tokens=100,
            temperature=0.0,
        )
        return reply.choices[0].message.content

    try:
        return [
            await timed("openai SDK, chat.completions.create", bare, calls, width),
            await timed("ragwright, OpenAIChat.chat", lambda: ours.chat(REQUEST), calls, width),
        ]
    finally:
        await sdk.close()
        await ours.aclose()


def main() -> None:
    """Measure and print both, and the ratio of their CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--width", type=int, default=64)
    given = parser.parse_args()
    with ScriptedServer.spawn(Reply("a short answer " * 10, delay=0.1)) as server:
        timings = asyncio.run(compare(server.url, given.calls, given.width))
    floor = given.calls / given.width * 0.1
    print(f"{given.calls} calls, {given.width} at once, floor {floor:.2f} s")
    for name, wall, cpu in timings:
        print(f"  {name:38} {wall:6.2f} s wall   {cpu:6.3f} ms CPU a call")
    print(f"  ratio of CPU, ours to the SDK's: {timings[1][2] / timings[0][2]:.2f}")


if __name__ == "__main__":
    main()
