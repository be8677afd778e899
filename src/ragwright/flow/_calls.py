"""One call: merged, claimed, limited, paid for, retried, committed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..core import (
    ConfigError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    RagwrightError,
    StoreError,
    Usage,
)
from ._handlers import SendHandler, may_stream
from ._lanes import Lane, Progress, RetryPolicy, is_pushback
from ._replies import Claim, LaneFacts, Replies, ReplyEntry
from ._requests import (
    AskSystem,
    Chat,
    Complete,
    Embed,
    Reply,
    Request,
    Rerank,
    decode,
    encode,
    price_reply,
    request_text,
    reusable,
    sources_of,
    usage_of,
)
from ._spending import Budget, present_meter
from ._verbs import RunnerOptions, Stopping

_LEASE_SECONDS = 900.0
_POLL_SECONDS = 0.1
_HOLD_SECONDS = 0.2
_MARGIN = 1.1
_CHARACTERS_A_TOKEN = 3.0
_MOST_CHARACTERS = 5.0

Estimate: TypeAlias = Literal["low", "expected", "high"]


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a durable reply, and the scope that may see it."""

    text: str
    scope: str


@dataclass(slots=True, eq=False)
class Call:
    """A call under way, shared by all flows with the same request."""

    future: asyncio.Future[Reply]
    task: asyncio.Task[None] | None = None
    waiters: int = 0
    sent: bool = False
    text: list[str] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)

    def delta(self, piece: str) -> None:
        """Pass a piece of streamed text to every listener."""
        self.text.append(piece)
        for listener in list(self.listeners):
            listener.hear(piece)

    def listen(self, listener: Listener) -> None:
        """Add a listener; it first gets what was streamed before."""
        if self.text:
            listener.hear("".join(self.text))
        self.listeners.append(listener)

    @property
    def shown(self) -> bool:
        """True once a listener got a piece of the reply: it cannot be taken back."""
        return any(listener.heard for listener in self.listeners)


@dataclass(slots=True, eq=False)
class Listener:
    """One flow's sink; its own failure is that flow's alone, not the shared call's."""

    sink: Callable[[str], None]
    heard: bool = False
    error: Exception | None = None

    def hear(self, piece: str) -> None:
        """Pass a piece on, unless the sink has failed before."""
        if self.error is not None:
            return
        self.heard = True
        try:
            self.sink(piece)
        except Exception as error:
            self.error = error


class CallRunner:
    """Makes calls through send handlers; lives on the runner's loop."""

    def __init__(
        self, options: RunnerOptions, retry: RetryPolicy, replies: Replies | None, budget: Budget
    ) -> None:
        self.options = options
        self.retry = retry
        self.replies = replies
        self.budget = budget
        self.progress = Progress()
        self.lanes: dict[str, Lane] = {}
        self.reason: RagwrightError | None = None
        self.stop_if_unreachable = False
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
        """Statistics of a lane's past calls, read once."""
        if lane not in self._facts:
            self._facts[lane] = LaneFacts() if self.replies is None else self.replies.facts(lane)
        return self._facts[lane]

    def prompt_tokens(self, lane: str, request: Request, which: Estimate = "high") -> int:
        """Estimated prompt tokens by the lane's learned ratio, with a margin to both sides.

        Before the first reply prose is assumed: four bytes of UTF-8 per token, five characters as
        low, three as high. A budget reserves the high estimate.
        """
        text, facts = request_text(request), self.facts(lane)
        if not text:  # no model reads it
            return 0
        if facts.prompt_tokens:
            counted = len(text) / max(facts.characters / facts.prompt_tokens, 0.1)
            low, expected = counted / _MARGIN, counted
        else:
            counted = len(text) / _CHARACTERS_A_TOKEN
            low, expected = len(text) / _MOST_CHARACTERS, len(text.encode("utf-8", "replace")) / 4
        high = int(max(counted, expected) * _MARGIN) + 8
        return {"low": int(low), "expected": round(expected), "high": high}[which]

    def completion_limit(self, handler: SendHandler[Any, Any], request: Request) -> int:
        """Most tokens a reply may have: by the request, the settings, or the runner's bound."""
        if not isinstance(request, Chat | Complete):
            return 0
        named = dict(request.params)
        longest = named.get("max_completion_tokens", named.get("max_tokens"))
        if longest is None:
            longest = handler.longest_reply(request)
        return int(longest) if longest is not None else self.options.longest_reply

    def worst_cost(self, handler: SendHandler[Any, Any], lane: str, request: Request) -> float:
        """Most money a call can cost.

        Raises:
            ConfigError: The meter needs prices, and the model has none.
            Stopping: A budget is set and the model has no price.
        """
        if not handler.paid(request):
            return 0.0
        usage = Usage(1, self.prompt_tokens(lane, request), self.completion_limit(handler, request))
        price = handler.price(request, usage)
        if price is None:
            meter = present_meter()
            if meter is not None and meter.priced:
                raise ConfigError(
                    f"there is a daily budget, and the model {lane!r} has no price",
                    hint="set price_in and price_out below `models` in ragwright.yaml",
                )
            if self.budget.bounded:
                raise Stopping(
                    ConfigError(
                        f"a budget is set, but model {lane!r} has no price",
                        hint="add prices under models: in the project file (of a system, `price` "
                        "in its file), or drop --max-cost",
                    )
                )
            return 0.0
        return price

    async def call(
        self, handler: SendHandler[Any, Any], request: Request, key: Key | None, call: Call
    ) -> Reply:
        """A reply to a request that is new in this process.

        Raises:
            RagwrightError: After the last attempt.
            Stopping: The budget does not cover it.
        """
        lane = self.lane(handler, request)
        if key is None or self.replies is None:
            return (await self._attempts(handler, request, lane, call))[0]
        claim = await self._claim(key.text, request, lane)
        if claim.state == "known":
            return decode(type(request), claim.body)
        renewing = asyncio.create_task(self._renew(key.text, claim.name))
        try:
            reply, seconds = await self._attempts(handler, request, lane, call)
            await self.commit(key, request, lane.name, reply, seconds)
        except BaseException:
            self.replies.release(key.text, claim.name)  # of a reply on disk: does nothing
            raise
        finally:
            renewing.cancel()
        return reply

    async def _renew(self, key: str, name: str) -> None:
        """Renew a claim of ours while its call is pending, so that nobody else pays for it."""
        assert self.replies is not None
        with suppress(StoreError):  # closed meanwhile: the call gets that error
            while True:
                await asyncio.sleep(_LEASE_SECONDS / 3)
                self.replies.renew(key, name, _LEASE_SECONDS)

    async def _attempts(
        self, handler: SendHandler[Any, Any], request: Request, lane: Lane, call: Call
    ) -> tuple[Reply, float]:
        attempt = timed_out = 0
        while True:
            attempt += 1
            try:
                return await self._once(handler, request, lane, call)
            except RagwrightError as error:
                down = self.stop_if_unreachable and isinstance(error, ModelUnreachableError)
                if down and lane.unreachable(self.retry):
                    raise Stopping(error) from error
                timed_out += isinstance(error, ModelTimeoutError)
                if timed_out >= self.retry.timed_out_attempts:
                    raise  # the server may still work on the requests given up: no third copy
                wait = self.retry.pause(error, attempt, self._chance)
                if wait is None or call.shown:  # pieces already shown cannot be taken back
                    raise
                if self.reason is not None:  # in flight when the work was stopped: its last try
                    raise
                self.progress.wait(lane.name, wait, asked=self.retry.held_back(error) is not None)
            call.sent = False
            call.text.clear()
            self.progress.retries += 1
            await asyncio.sleep(wait)

    async def _once(
        self, handler: SendHandler[Any, Any], request: Request, lane: Lane, call: Call
    ) -> tuple[Reply, float]:
        await lane.acquire()
        reserved: str | None = None
        worst = spent = 0.0
        usage = Usage(1)
        loop = asyncio.get_running_loop()
        try:
            while self.options.hold is not None and self.reason is None and self.options.hold():
                await asyncio.sleep(_HOLD_SECONDS)
            worst = self.worst_cost(handler, lane.name, request)
            reserved = await self.budget.reserve(worst)
            if self.reason is not None:  # stopped while waiting: nothing more is sent
                raise Stopping(self.reason)
            spent = worst  # until the reply says otherwise, the call may be billed in full
            started = loop.time()
            try:
                reply = await self._send(handler, request, lane, call)
            except RagwrightError as error:
                if not isinstance(error, ModelReplyError | ModelTimeoutError):
                    spent = 0.0
                # before the place is passed on, or one request too many would go out
                if is_pushback(error):
                    lane.overloaded(
                        self.retry.held_back(error),
                        started,
                        slow=isinstance(error, ModelTimeoutError),
                    )
                raise
            lane.succeeded()
            seconds = loop.time() - started
            reply = self._priced(handler, request, reply, seconds)
            self._learn(lane.name, request, reply, seconds)
            usage = usage_of(reply)
            cost = usage.cost if handler.paid(request) else 0.0
            spent = worst if cost is None else cost
            return reply, seconds
        finally:
            lane.release()
            if reserved is not None:
                self.budget.settle(reserved, worst, spent)
            self.progress.cost += spent
            meter = present_meter()
            if meter is not None and (spent or usage.prompt_tokens or usage.completion_tokens):
                meter.note(replace(usage, cost=spent))

    async def _send(
        self, handler: SendHandler[Any, Any], request: Request, lane: Lane, call: Call
    ) -> Reply:
        """One attempt within its time limit; what may have been billed is counted."""
        seconds = getattr(request, "timeout", None) or handler.timeout(request)
        self.progress.calls += 1
        self.progress.in_flight += 1
        self.progress.awaited[lane.name] += 1
        call.sent = True
        try:
            async with asyncio.timeout(seconds):
                reply: Reply = await handler.send(
                    request, call.delta if may_stream(request) else None
                )
                return reply
        except TimeoutError as error:
            self.progress.possibly_billed += 1
            raise ModelTimeoutError(
                f"no reply within {seconds:g} s (timeout)",
                where=lane.name,
                hint="raise timeout under models:, or lower concurrency: the server may be "
                "overloaded",
            ) from error
        except asyncio.CancelledError as error:
            self.progress.possibly_billed += 1
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # A client library cancelled its own work; this is not a stop.
            raise ModelUnavailableError(
                "the client library dropped the connection", where=lane.name
            ) from error
        except (ModelReplyError, ModelTimeoutError):
            self.progress.possibly_billed += 1
            raise
        finally:
            self.progress.in_flight -= 1
            self.progress.awaited[lane.name] -= 1

    def _learn(self, lane: str, request: Request, reply: Reply, seconds: float) -> None:
        """Add a call to its lane's statistics."""
        facts, usage = self.facts(lane), usage_of(reply)
        self._facts[lane] = LaneFacts(
            facts.calls + 1,
            facts.prompt_tokens + usage.prompt_tokens,
            facts.completion_tokens + usage.completion_tokens,
            facts.characters + (len(request_text(request)) if usage.prompt_tokens else 0),
            facts.seconds + seconds,
        )

    def _priced(
        self, handler: SendHandler[Any, Any], request: Request, reply: Reply, seconds: float
    ) -> Reply:
        usage = usage_of(reply)
        # A negative cost, which a custom back end may report, would increase the budget.
        usage = replace(
            usage,
            prompt_tokens=max(0, usage.prompt_tokens),
            completion_tokens=max(0, usage.completion_tokens),
        )
        self.progress.prompt_tokens += usage.prompt_tokens
        self.progress.completion_tokens += usage.completion_tokens
        if isinstance(request, AskSystem):
            price = handler.price(request, Usage(1))
            return price_reply(reply, Usage(1, cost=price, seconds=round(seconds, 3)))
        if not isinstance(request, Chat | Complete | Embed | Rerank):
            return reply
        cost: float | None = 0.0
        if handler.paid(request):  # a server that reports no tokens is not free
            counted = usage.prompt_tokens or usage.completion_tokens
            cost = handler.price(request, usage) if counted else None
        tokens = (usage.prompt_tokens, usage.completion_tokens)
        return price_reply(reply, Usage(1, *tokens, cost, round(seconds, 3)))

    async def _claim(self, key: str, request: Request, lane: Lane) -> Claim:
        """The right to call, or the reply of another process that made the call."""
        assert self.replies is not None
        while True:
            name, claimed = self.replies.claim(
                key, type(request).__name__, lane.name, _LEASE_SECONDS
            )
            try:
                claim = await asyncio.wrap_future(claimed)
            except asyncio.CancelledError:
                self.replies.release(key, name)  # queued behind the claim it undoes
                raise
            if claim.state == "known":
                if not self.options.reuse:
                    return Claim("ours")
                self.progress.reused += 1
                return claim
            if claim.state == "ours":
                return claim
            await asyncio.sleep(_POLL_SECONDS)

    async def commit(
        self, key: Key, request: Request, lane: str, reply: Reply, seconds: float
    ) -> None:
        """Store a reply, and wait until it is on disk."""
        assert self.replies is not None
        entry = ReplyEntry(
            key=key.text,
            kind=type(request).__name__,
            lane=lane,
            scope=key.scope,
            body=encode(reply),
            reusable=reusable(reply),
            usage=usage_of(reply),
            characters=len(request_text(request)) if usage_of(reply).prompt_tokens else 0,
            seconds=seconds,
            sources=sources_of(request),
        )
        await asyncio.shield(asyncio.wrap_future(self.replies.put(entry)))
