"""Handlers and flows for tests of the runner: no network, every call seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ragwright.core import RagwrightError, Usage
from ragwright.flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Embed,
    EmbedReply,
    Fetch,
    FetchReply,
    Flow,
    Message,
    OnDelta,
    RetryPolicy,
    Search,
    SearchReply,
    SendHandler,
    chat,
)

Answer = Callable[[Chat, int], "ChatReply | str | BaseException"]

FAST = RetryPolicy(base=0.001, longest=0.01)
ONCE = RetryPolicy(attempts=1)


async def until(holds: Callable[[], object]) -> None:
    """Look until it holds, and let others work meanwhile."""
    while not holds():
        await asyncio.sleep(0.002)


def user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def ask(text: str, **options: Any) -> Flow[str]:
    return (yield from chat("m", user(text), **options)).text


def ask_all(*texts: str) -> Flow[list[str]]:
    found = []
    for text in texts:
        found.append((yield from ask(text)))
    return found


def limited(text: str, tokens: int = 10) -> Flow[str]:
    """A chat whose worst case is ``tokens`` completion tokens."""
    return (yield from chat("m", user(text), {"max_tokens": tokens})).text


def stubborn(text: str, log: list[str]) -> Flow[str]:
    """Swallows every Exception; notes how it was closed."""
    try:
        while True:
            try:
                yield from limited(text)
            except Exception:
                log.append("scored as an error")
            text += "+"
    except GeneratorExit:
        log.append("closed")
        raise


def prompt(request: Chat) -> str:
    return request.messages[-1].content


class FakeChat(SendHandler[Chat, ChatReply]):
    """Answers ``re: <prompt>`` after a latency, or what ``answer`` says; counts everything.

    ``gate`` holds every reply, and the last piece of a stream, back until a thread sets it;
    ``before`` is awaited before a request counts as asked.
    """

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        latency: float = 0.0,
        price: float | None = None,
        deltas: Sequence[str] = (),
        limit: int | None = None,
        gate: threading.Event | None = None,
        before: Callable[[Chat], Awaitable[object]] | None = None,
    ) -> None:
        self.answer = answer
        self.latency = latency
        self.unit_price = price
        self.costs = price is not None
        self.deltas = deltas
        self.most = limit
        self.gate = gate
        self.before = before
        self.name = "fake"
        self.asked: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.cancelled = 0
        self.closed_on: object = None

    def identity(self, request: Chat) -> str:
        return self.name

    def lane(self, request: Chat) -> str:
        return request.model

    def limit(self, lane: str) -> int | None:
        return self.most

    def paid(self, request: Chat) -> bool:
        return self.costs

    def price(self, request: Chat, usage: Usage) -> float | None:
        return None if self.unit_price is None else self.unit_price * usage.completion_tokens

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        text = prompt(request)
        if self.before is not None:
            await self.before(request)
        self.asked.append(text)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if on_delta is not None:
                for number, piece in enumerate(self.deltas, 1):
                    if number == len(self.deltas):
                        await self._opened()
                    on_delta(piece)
                    await asyncio.sleep(self.latency)
            else:
                await self._opened()
                if self.latency:
                    await asyncio.sleep(self.latency)
            found = self.answer(request, len(self.asked)) if self.answer else f"re: {text}"
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        if isinstance(found, BaseException):
            raise found
        return ChatReply(found, Usage(1, 10, 10)) if isinstance(found, str) else found

    async def _opened(self) -> None:
        await until(lambda: self.gate is None or self.gate.is_set())

    async def aclose(self) -> None:
        self.closed_on = asyncio.get_running_loop()


class FakeSearch(BatchHandler[Search, SearchReply]):
    """One candidate a search; remembers how requests were batched."""

    def __init__(self, *, bad: str = "", work: Callable[[], object] | None = None) -> None:
        self.batches: list[list[str]] = []
        self.bad = bad
        self.work = work

    def durable(self, request: Search) -> bool:
        return True

    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        self.batches.append([r.text for r in requests])
        if self.work is not None:
            self.work()
        if any(r.text == self.bad for r in requests):
            raise ValueError(f"cannot search {self.bad!r}")
        return [SearchReply(((f"chunk of {r.text}", 1.0),)) for r in requests]


class FakeEmbed(BatchHandler[Embed, EmbedReply]):
    def __init__(self) -> None:
        self.carried: list[Embed] = []

    def identity(self, request: Embed) -> str:
        return "weights"

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply | RagwrightError]:
        import numpy as np

        self.carried.extend(requests)
        return [
            EmbedReply(np.array([[float(len(t)), 1.0] for t in r.texts], dtype=np.float32))
            for r in requests
        ]


class FakeFetch(SendHandler[Fetch, FetchReply]):
    def __init__(self) -> None:
        self.version = 1
        self.seen = 0

    async def send(self, request: Fetch, on_delta: OnDelta | None = None) -> FetchReply:
        self.seen += 1
        return FetchReply(request.url, 200, {}, f"page v{self.version}".encode())
