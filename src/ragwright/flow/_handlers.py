"""The runner's interface for handlers, which carry out one kind of request, and their batches.

A handler is written once per kind of request, by the room that owns the resource (`models`
owns servers, `index` owns views). The runner owns everything around it: reuse, merging,
batching, limits, retries, budget, commits.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from ..core import FlowError, RagwrightError, Usage, count_noun
from ._requests import AskSystem, Chat, Complete, Embed, Request, Rerank

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

OnDelta = Callable[[str], None]


class Handler(ABC, Generic[RequestT, ReplyT]):
    """The base of handlers: carries out requests of one kind, and gives the runner their limits."""

    def identity(self, request: RequestT) -> str:
        """Everything besides the request that determines the reply; part of the durable key.

        For a model server its address and model; for a local model a hash of its weights and
        tokenizer. Raises ConfigError for an unknown model.
        """
        return ""

    def lane(self, request: RequestT) -> str:
        """Requests of one lane share one concurrency limit: usually the model's name."""
        return type(request).__name__

    def limit(self, lane: str) -> int | None:
        """Most requests of a lane in flight that the settings allow, None for the default."""
        return None

    def timeout(self, request: RequestT) -> float | None:
        """Seconds for one attempt that the settings allow, None for the runner's default."""
        return None

    def longest_reply(self, request: RequestT) -> int | None:
        """Most tokens a reply may have by the settings, None if they set no limit."""
        return None

    def durable(self, request: RequestT) -> bool:
        """True if the reply is kept across runs; False for free local work."""
        return True

    def paid(self, request: RequestT) -> bool:
        """True where a call may cost money, so that it counts against the budget."""
        return False

    def price(self, request: RequestT, usage: Usage) -> float | None:
        """Money for a usage by the configured prices, None where no price is known."""
        return None

    def dimensions(self, request: RequestT) -> int | None:
        """Length of the vectors of an ``Embed`` if known beforehand, for a dry run."""
        return None

    def free(self, request: RequestT) -> bool:
        """True for a request that a dry run carries out too: local, and without an effect."""
        return False

    async def aclose(self) -> None:
        """Release resources; called on the runner's loop."""


class SendHandler(Handler[RequestT, ReplyT]):
    """Carries out one request at a time over the network; many run side by side."""

    @abstractmethod
    async def send(self, request: RequestT, on_delta: OnDelta | None = None) -> ReplyT:
        """Make one attempt, without retries of its own.

        Args:
            request: What to send.
            on_delta: Called on the loop with each piece of text, where the reply is streamed.

        Raises:
            RagwrightError: Typed, so that the runner knows whether trying again may help.
        """


class BatchHandler(Handler[RequestT, ReplyT]):
    """Carries out all queued requests together, off the loop."""

    max_batch: int = 64

    @abstractmethod
    def reply_to(self, requests: Sequence[RequestT]) -> Sequence[ReplyT | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""

    def together(self, requests: Sequence[RequestT]) -> int:
        """How many of the first requests to carry out at once, at least 1."""
        return self.max_batch


AnyHandler = SendHandler[Any, Any] | BatchHandler[Any, Any]

HandlerSource = AnyHandler | Callable[[Any], AnyHandler]
"""A handler for a kind of request, or a function that picks one by the request."""


class Batcher:
    """The queue in front of one batch handler.

    Requests that arrive while a batch is under way are the next batch; no timer, no wait.
    Lives on the runner's loop.
    """

    def __init__(self, handler: BatchHandler[Any, Any], pool: Executor) -> None:
        self._handler = handler
        self._pool = pool
        self._queue: list[tuple[Any, asyncio.Future[Any]]] = []
        self.task: asyncio.Task[None] | None = None

    def put(self, request: Any) -> asyncio.Future[Any]:
        """Queue a request; the future ends with its reply, or raises its error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append((request, future))
        if self.task is None:
            self.task = loop.create_task(self._work())
        return future

    def drop(self) -> None:
        """Give up what is queued; a batch under way goes on."""
        waiting, self._queue = self._queue, []
        for _, future in waiting:
            future.cancel()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while waiting := [pair for pair in self._queue if not pair[1].cancelled()]:
            batch, self._queue = waiting, []
            replies: list[Any]
            try:
                most = max(1, self._handler.together([request for request, _ in waiting]))
                batch, self._queue = waiting[:most], waiting[most:]
                requests = [request for request, _ in batch]
                replies = await loop.run_in_executor(
                    self._pool, _reply_to_batch, self._handler, requests
                )
            except asyncio.CancelledError:
                replies = [FlowError("the runner was closed")] * len(batch)
            except Exception as error:
                replies = [error] * len(batch)
            for (_, future), reply in zip(batch, replies, strict=True):
                if future.done():
                    continue
                if isinstance(reply, BaseException):
                    future.set_exception(_raisable(reply))
                else:
                    future.set_result(reply)
        self.task = None


def _reply_to_batch(handler: BatchHandler[Any, Any], requests: list[Any]) -> list[Any]:
    """Replies, each error as a value; the requests of a batch that fails are carried out singly.

    Nothing is raised here: on a worker's thread nothing would catch it.
    """
    try:
        replies = list(handler.reply_to(requests))
        if len(replies) == len(requests):
            return replies
        raise FlowError(
            f"{type(handler).__name__} returned {len(replies)} replies "
            f"for {count_noun(len(requests), 'request')}"
        )
    except BaseException as error:
        if len(requests) == 1:
            return [error]
    return [reply for request in requests for reply in _reply_to_batch(handler, [request])]


def _raisable(error: BaseException) -> Exception:
    """The error as one that a future can hold and that does not end the thread."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = FlowError(f"the handler raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


def durable(request: Request) -> bool:
    """True for the kinds that are kept across runs: what a model is paid for.

    Vectors of passages are stored in the index; here only until they are put there.
    """
    if isinstance(request, Embed) and request.role == "passage":
        return bool(request.sources)
    return isinstance(request, Chat | Complete | Embed | Rerank | AskSystem)


def may_stream(request: Request) -> bool:
    """True where deltas may be shown: marked so, and not to be validated first."""
    return isinstance(request, Chat) and request.stream and not request.schema
