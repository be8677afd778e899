"""One call: merged, claimed, limited, paid for, retried, committed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..core import (
    BudgetStopped,
    ConfigError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    RagwrightError,
    Usage,
)
from ._budget import Budget
from ._codec import decode, encode, request_text, reusable, usage_of, with_usage
from ._context import RunnerOptions, Stopping
from ._handlers import AnyHandler, SendHandler
from ._lanes import Lane, RetryPolicy
from ._progress import Progress
from ._replies import Claim, Entry, LaneFacts, Replies
from ._requests import Chat, Complete, Embed, Reply, Request, Rerank

_LEASE_SECONDS = 900.0
_POLL_SECONDS = 0.1
_MARGIN = 1.1
_CHARACTERS_A_TOKEN = 3.0


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a durable reply, and the scope that may see it."""

    text: str
    scope: str


@dataclass(slots=True, eq=False)
class Call:
    """A call under way, shared by every flow that asked for the same thing."""

    future: asyncio.Future[Reply]
    task: asyncio.Task[None] | None = None
    waiters: int = 0
    text: list[str] = field(default_factory=list)
    sinks: list[Callable[[str], None]] = field(default_factory=list)

    def delta(self, piece: str) -> None:
        """Hand a piece of streamed text to every sink."""
        self.text.append(piece)
        for sink in self.sinks:
            sink(piece)

    def listen(self, sink: Callable[[str], None]) -> None:
        """Add a sink; what was streamed before it came is handed over first."""
        if self.text:
            sink("".join(self.text))
        self.sinks.append(sink)


class Caller:
    """Makes calls through send handlers; lives on the runner's loop."""

    def __init__(self, options: RunnerOptions, retry: RetryPolicy, replies: Replies | None) -> None:
        self.options = options
        self.retry = retry
        self.replies = replies
        self.budget = Budget(options.max_cost)
        self.progress = Progress()
        self.lanes: dict[str, Lane] = {}
        self.reason: RagwrightError | None = None
        self._chance = random.Random(options.seed)  # noqa: S311
        self._facts: dict[str, LaneFacts] = {}

    def lane(self, handler: SendHandler[Any, Any], request: Request) -> Lane:
        """The lane of a request, made when first needed."""
        name = handler.lane(request)
        lane = self.lanes.get(name)
        if lane is None:
            limit = handler.limit(name) or self.options.concurrency
            if self.options.jobs is not None:
                limit = min(limit, self.options.jobs)
            lane = self.lanes[name] = Lane(name, max(1, limit))
        return lane

    def facts(self, lane: str) -> LaneFacts:
        """What past calls of a lane teach, read once."""
        if lane not in self._facts:
            self._facts[lane] = LaneFacts() if self.replies is None else self.replies.facts(lane)
        return self._facts[lane]

    def prompt_tokens(self, lane: str, request: Request) -> int:
        """Estimated prompt tokens: the lane's learned ratio, with a margin."""
        facts = self.facts(lane)
        ratio = _CHARACTERS_A_TOKEN
        if facts.prompt_tokens:
            ratio = facts.characters / facts.prompt_tokens
        return int(len(request_text(request)) / max(ratio, 0.1) * _MARGIN) + 8

    def completion_limit(self, request: Request) -> int:
        """Most tokens a reply may have."""
        if isinstance(request, Chat | Complete):
            named = dict(request.params)
            asked = named.get("max_completion_tokens", named.get("max_tokens"))
            return int(asked) if asked is not None else self.options.longest_reply
        return 0

    def worst_cost(self, handler: SendHandler[Any, Any], lane: str, request: Request) -> float:
        """Most money a call can cost.

        Raises:
            Stopping: A budget is set and the model has no price.
        """
        if not handler.paid(request):
            return 0.0
        usage = Usage(1, self.prompt_tokens(lane, request), self.completion_limit(request))
        price = handler.price(request, usage)
        if price is None:
            if self.options.max_cost is not None:
                raise Stopping(
                    ConfigError(
                        f"a budget is set, but model {lane!r} has no price",
                        hint="add prices under models: in the project file, or drop --max-cost",
                    )
                )
            return 0.0
        return price

    async def call(
        self, handler: SendHandler[Any, Any], request: Request, key: Key | None, call: Call
    ) -> Reply:
        """A reply to a request nobody in this process knows yet.

        Raises:
            RagwrightError: After the last attempt.
            Stopping: The budget does not cover it.
        """
        lane = self.lane(handler, request)
        if key is not None and self.replies is not None:
            known = await self._claim(key.text, request, lane)
            if known is not None:
                return known
        try:
            reply, seconds = await self._attempts(handler, request, lane, call)
        except BaseException:
            if key is not None and self.replies is not None:
                self.replies.release(key.text)
            raise
        if key is not None and self.replies is not None:
            await self._commit(key, request, lane.name, reply, seconds)
        return reply

    async def keep(self, handler: AnyHandler, request: Request, key: Key, reply: Reply) -> None:
        """Commit a reply that local work made."""
        if self.replies is not None:
            await self._commit(key, request, handler.lane(request), reply, 0.0)

    async def _attempts(
        self, handler: SendHandler[Any, Any], request: Request, lane: Lane, call: Call
    ) -> tuple[Reply, float]:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._once(handler, request, lane, call)
            except RagwrightError as error:
                if isinstance(error, ModelUnavailableError):
                    lane.overloaded(getattr(error, "retry_after", None))
                wait = self.retry.pause(error, attempt, self._chance)
                if wait is None or call.text:  # what was shown cannot be taken back
                    raise
                self.progress.retries += 1
                await asyncio.sleep(wait)

    async def _once(
        self, handler: SendHandler[Any, Any], request: Request, lane: Lane, call: Call
    ) -> tuple[Reply, float]:
        await lane.acquire()
        worst = 0.0
        cost: float | None = 0.0
        loop = asyncio.get_running_loop()
        try:
            worst = self.worst_cost(handler, lane.name, request)
            await self._reserve(worst)
            if self.reason is not None:  # stopped while waiting: nothing more is sent
                raise Stopping(self.reason)
            seconds = getattr(request, "timeout", None) or self.options.timeout
            streamed = isinstance(request, Chat) and request.stream
            self.progress.calls += 1
            self.progress.in_flight += 1
            cost = worst  # until the reply says otherwise, the call may be billed in full
            started = loop.time()
            try:
                async with asyncio.timeout(seconds):
                    reply: Reply = await handler.send(request, call.delta if streamed else None)
            except TimeoutError as error:
                self.progress.possibly_billed += 1
                raise ModelTimeoutError(
                    f"no reply within {seconds:g} s",
                    where=lane.name,
                    hint="raise the time limit, or see whether the server is overloaded",
                ) from error
            except asyncio.CancelledError:
                self.progress.possibly_billed += 1
                raise
            except RagwrightError as error:
                if isinstance(error, ModelReplyError | ModelTimeoutError):
                    self.progress.possibly_billed += 1
                else:
                    cost = 0.0
                raise
            finally:
                self.progress.in_flight -= 1
            lane.succeeded()
            reply = self._priced(handler, request, reply)
            cost = usage_of(reply).cost if handler.paid(request) else 0.0
            return reply, loop.time() - started
        finally:
            lane.release()
            self.budget.settle(worst, cost)
            self.progress.cost = self.budget.spent

    def _priced(self, handler: SendHandler[Any, Any], request: Request, reply: Reply) -> Reply:
        usage = usage_of(reply)
        self.progress.prompt_tokens += usage.prompt_tokens
        self.progress.completion_tokens += usage.completion_tokens
        if not isinstance(request, Chat | Complete | Embed | Rerank):
            return reply
        cost = handler.price(request, usage) if handler.paid(request) else 0.0
        return with_usage(reply, Usage(1, usage.prompt_tokens, usage.completion_tokens, cost))

    async def _reserve(self, worst: float) -> None:
        try:
            await self.budget.reserve(worst)
        except BudgetStopped as error:
            raise Stopping(error) from error

    async def _claim(self, key: str, request: Request, lane: Lane) -> Reply | None:
        """None once the right to call is ours; a reply where another process made the call."""
        assert self.replies is not None
        while True:
            claimed, done = committed()
            self.replies.claim(key, type(request).__name__, lane.name, _LEASE_SECONDS, done)
            claim: Claim = await claimed
            if claim.state == "known" and self.options.reuse:
                self.progress.reused += 1
                return decode(type(request), claim.body)
            if claim.state != "leased":
                return None
            await asyncio.sleep(_POLL_SECONDS)

    async def _commit(
        self, key: Key, request: Request, lane: str, reply: Reply, seconds: float
    ) -> None:
        assert self.replies is not None
        done_future, done = committed()
        entry = Entry(
            key=key.text,
            kind=type(request).__name__,
            lane=lane,
            scope=key.scope,
            body=encode(reply),
            reusable=reusable(reply),
            usage=usage_of(reply),
            characters=len(request_text(request)),
            seconds=seconds,
            sources=tuple(getattr(request, "sources", ())),
        )
        self.replies.put(entry, done)
        await asyncio.shield(done_future)


def committed() -> tuple[asyncio.Future[Any], Callable[[Any, BaseException | None], None]]:
    """A future of the running loop, and the writer's callback that settles it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def done(result: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(settle, result, error)

    return future, done
