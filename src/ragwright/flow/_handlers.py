"""The runner's interface for handlers, which carry out one kind of request.

A handler is written once per kind of request, by the room that owns the resource (`models`
owns servers, `index` owns views). The runner owns everything around it: reuse, merging,
batching, limits, retries, budget, commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..core import RagwrightError, Usage

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
    def carry(self, requests: Sequence[RequestT]) -> Sequence[ReplyT | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""

    def together(self, requests: Sequence[RequestT]) -> int:
        """How many of the first requests to carry out at once, at least 1."""
        return self.max_batch

    def quick(self, requests: Sequence[RequestT]) -> bool:
        """True if these surely take less than 5 ms: then they run on the loop."""
        return False


AnyHandler = SendHandler[Any, Any] | BatchHandler[Any, Any]

Route = AnyHandler | Callable[[Any], AnyHandler]
"""A handler for a kind of request, or a function that picks one by the request."""
