"""Context of a flow: options, deadline, trace, and the scenario of a dry run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ..core import FlowError, RagwrightError, StoppedError, text_hash
from ._handlers import SendHandler
from ._requests import (
    AskSystem,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Fetch,
    FetchReply,
    Reply,
    Request,
    Rerank,
    RerankReply,
    SystemReply,
    Vector,
)
from ._verbs import Branch


@dataclass(slots=True)
class PlannedCall:
    """One call that would be made."""

    handler: SendHandler[Any, Any]
    request: Request
    lane: str


@dataclass(slots=True)
class Scenario:
    """One of the three walks through the branches, collecting distinct calls.

    ``refused`` is the first error of a request that cannot be carried out.
    """

    name: str
    planned: dict[Any, PlannedCall] = field(default_factory=dict)
    branched: bool = False
    uncertain: int = 0
    reused: int = 0
    refused: RagwrightError | None = None

    def branch(self, step: Branch) -> int:
        """The count this scenario takes."""
        self.branched = True
        count: int = getattr(step, self.name)
        return count

    def forecast(self, handler: SendHandler[Any, Any], request: Request, key: str | None) -> Reply:
        """Note a call and return a stand-in for its reply; equal keys are one call."""
        name: Any = request if key is None else key
        if name not in self.planned:
            self.planned[name] = PlannedCall(handler, request, handler.lane(request))
        return _stand_in(request, str(name), handler.dimensions(request))


def _stand_in(request: Request, name: str, dimensions: int | None) -> Reply:
    # Different requests get different texts, so that calls about them stay different.
    if isinstance(request, Chat):
        return ChatReply(f"forecast {text_hash(name)[:12]}", finish="forecast")
    if isinstance(request, Complete):
        return CompleteReply(f"forecast {text_hash(name)[:12]}", finish="forecast")
    if isinstance(request, Rerank):
        return RerankReply((0.0,) * len(request.passages))
    if isinstance(request, Embed):
        width = dimensions or 1
        vectors: Vector = np.full((len(request.texts), width), width**-0.5, dtype=np.float32)
        return EmbedReply(vectors)
    if isinstance(request, Fetch):
        return FetchReply(request.url, 200, {}, b"")
    if isinstance(request, AskSystem):
        text = f"forecast {text_hash(name)[:12]}"
        return SystemReply(text, (text,), ("forecast",))
    raise TypeError(f"{type(request).__name__} is never forecast")


T = TypeVar("T")


class Stopping(BaseException):
    """The work is being stopped: closes generators; a flow cannot catch it as a failure."""

    def __init__(self, reason: RagwrightError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One request of a flow and its outcome."""

    request: Request
    reply: Reply | None
    error: RagwrightError | None
    seconds: float
    cached: bool


@dataclass(slots=True)
class Context:
    """Shared by a flow and its children.

    Attributes:
        scope: Who may see the replies (tenant, permissions); part of their keys.
        deadline: Time on the loop's clock when the flow's own time is up.
        sink: Gets the text deltas of the one request marked ``stream``.
        trace: Gets an entry for each request, if set.
        scenario: Set in a dry run: what is forecast instead of sent.
        sources: Added to the sources of every request.
    """

    scope: str = ""
    deadline: float | None = None
    sink: Callable[[str], None] | None = None
    trace: list[TraceEntry] | None = None
    scenario: Scenario | None = None
    streamed: bool = False
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scope and not self.scope.strip():
            raise FlowError(
                "the name of the tenant is empty", hint="leave it out if there are no tenants"
            )


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """Settings of a runner.

    Attributes:
        concurrency: Requests in flight per model unless its settings say otherwise.
        jobs: Most requests in flight per model whatever its settings say (``-j``).
        width: Flows open at once in ``map`` and ``gather``.
        timeout: Most seconds for one attempt if neither the request nor its handler sets a limit,
            None for no bound: handlers of models end a silent server by themselves.
        reuse: Answer from the reply store; off means every call is made again.
        attempt: Raised to draw new replies instead of the stored ones.
        longest_reply: Tokens a reply may have where ``max_tokens`` is not set (worst case).
        seed: Seed of the jitter between attempts.
        workers: Threads that carry out batches.
        hold: Asked before each request is sent; while it is true, the request waits.
        grace: Most seconds that a stop by the user (Ctrl-C) waits for calls in flight. Those
            without a reply by then are cancelled and count as possibly billed.
    """

    concurrency: int = 16
    jobs: int | None = None
    width: int = 128
    timeout: float | None = None
    reuse: bool = True
    attempt: int = 0
    longest_reply: int = 4096
    seed: int = 0
    workers: int = 4
    hold: Callable[[], bool] | None = None
    grace: float = 3.0


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How a flow of a ``map`` ended: with a value, with an error, or not at all."""

    state: Literal["done", "failed", "skipped"]
    value: T | None = None
    error: Exception | None = None

    def unwrap(self) -> T:
        """The value.

        Raises:
            Exception: What the flow failed with.
            StoppedError: It was stopped before its end.
        """
        if self.state == "done":
            return self.value  # type: ignore[return-value]
        if self.error is not None:
            raise self.error
        raise StoppedError("the flow was stopped before its end")
