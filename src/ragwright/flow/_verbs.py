"""Typed verbs: the only functions of the program that contain a bare ``yield``.

A flow is a generator of requests. It contains ``reply = yield from chat(...)``; the verb yields
the request, checks once that the runner sent the right kind of reply, and returns it typed. Below
the verbs stands what a flow runs in: its options, deadline, trace, and the scenario of a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, overload

import numpy as np

from ..core import Filter, FlowError, RagwrightError, StoppedError, text_hash
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
    Lookup,
    LookupReply,
    Message,
    Params,
    Reply,
    Request,
    Rerank,
    RerankReply,
    Search,
    SearchReply,
    Sql,
    SqlReply,
    SystemReply,
    Vector,
)

T = TypeVar("T")
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """Run child flows side by side (see :func:`gather`)."""

    flows: Iterable[Any]
    limit: int | None
    settle: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """How often a branch is taken, for a forecast (see :func:`branch`)."""

    low: int
    expected: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class PoolCall:
    """Do work on the pool (see :func:`aside`)."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class ReplyCheck:
    """Whether a reply of a model could be used (see :func:`reading`)."""

    model: str
    problem: str


Step: TypeAlias = Request | Gather | Branch | PoolCall | ReplyCheck
Flow: TypeAlias = Generator[Step, Any, T]


def _expect(kind: type[ReplyT], reply: Any) -> ReplyT:
    if not isinstance(reply, kind):
        raise FlowError(
            f"the driver sent {type(reply).__name__} where {kind.__name__} is due",
            hint="drive flows with a Runner; handlers must return the reply of their request",
        )
    return reply


def sort_params(params: Mapping[str, Any]) -> Params:
    """Parameters as the sorted, hashable pairs a request holds; lists become tuples.

    None means "not set" and is left out.
    """
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in sorted(params.items())
        if value is not None
    )


def send(request: Request, kind: type[ReplyT]) -> Flow[ReplyT]:
    """Yield any request and return its reply; the verbs below are named forms of it."""
    return _expect(kind, (yield request))


def chat(
    model: str,
    messages: Iterable[Message],
    params: Mapping[str, Any] | None = None,
    *,
    schema: str = "",
    sample: int = 0,
    stream: bool = False,
    sources: Sequence[str] = (),
) -> Flow[ChatReply]:
    """A chat completion by ``model``; equal requests with one ``sample`` are one call.

    ``sources`` names the documents whose text the messages hold.
    """
    request = Chat(
        model,
        tuple(messages),
        sort_params(params or {}),
        schema,
        sample,
        stream=stream,
        sources=tuple(sources),
    )
    return _expect(ChatReply, (yield request))


def complete(
    model: str,
    prompt: str,
    params: Mapping[str, Any] | None = None,
    *,
    logprobs: int | None = None,
    sample: int = 0,
    sources: Sequence[str] = (),
) -> Flow[CompleteReply]:
    """A completion of a raw prompt by ``model``."""
    request = Complete(
        model, prompt, sort_params(params or {}), logprobs, sample, sources=tuple(sources)
    )
    return _expect(CompleteReply, (yield request))


def embed(
    model: str,
    texts: Sequence[str],
    role: Literal["query", "passage"] = "query",
    *,
    sources: Sequence[str] = (),
) -> Flow[Vector]:
    """Vectors of texts: float32, shape (texts, dimensions); ``sources`` as in `Embed`."""
    request = Embed(model, tuple(texts), role, sources=tuple(sources))
    return _expect(EmbedReply, (yield request)).vectors


def search_keyword(
    snapshot: str, text: str, k: int, filters: Sequence[Filter] = ()
) -> Flow[tuple[tuple[str, float], ...]]:
    """Up to k (chunk id, BM25 score) of a snapshot, best first."""
    request = Search(snapshot, "keyword", k, text=text, filters=tuple(filters))
    return _expect(SearchReply, (yield request)).candidates


def lookup(snapshot: str, chunk_ids: Sequence[str]) -> Flow[LookupReply]:
    """The stored chunks with these ids, in this order."""
    return _expect(LookupReply, (yield Lookup(snapshot, tuple(chunk_ids))))


def rerank(
    model: str, query: str, passages: Sequence[str], *, sources: Sequence[str] = ()
) -> Flow[RerankReply]:
    """One score a passage by a reranking model."""
    request = Rerank(model, query, tuple(passages), sources=tuple(sources))
    return _expect(RerankReply, (yield request))


def ask_system(system: str, question: str, history: Sequence[Message] = ()) -> Flow[SystemReply]:
    """Ask a system under test a question after earlier turns; returns its answer."""
    return _expect(SystemReply, (yield AskSystem(system, question, tuple(history))))


def sql(
    database: str,
    statement: str,
    max_rows: int = 1000,
    within: tuple[tuple[str, str, str], ...] = (),
) -> Flow[SqlReply]:
    """Rows of one read-only statement; the arguments are those of `Sql`."""
    return _expect(SqlReply, (yield Sql(database, statement, max_rows, within)))


def fetch(url: str) -> Flow[FetchReply]:
    """The content at an address."""
    return _expect(FetchReply, (yield Fetch(url)))


@overload
def gather(
    flows: Iterable[Flow[T]], limit: int | None = None, *, settle: Literal[False] = False
) -> Flow[list[T]]: ...
@overload
def gather(
    flows: Iterable[Flow[T]], limit: int | None = None, *, settle: Literal[True]
) -> Flow[list[T | Exception]]: ...
def gather(
    flows: Iterable[Flow[T]], limit: int | None = None, *, settle: bool = False
) -> Flow[Any]:
    """Results of child flows run side by side, in order.

    Args:
        flows: Child flows; a lazy iterable is read only as fast as they finish.
        limit: Most children open at once, None for the runner's default.
        settle: Return the error of a failed child in its place instead of raising.

    Raises:
        GatherError: After all children have settled, where any failed and ``settle`` is off.
    """
    return cast("list[Any]", (yield Gather(flows, limit, settle)))


def run_in_pool(work: Callable[[], T]) -> Flow[T]:
    """The result of a computation, done on the bounded pool and not on the runner's loop.

    For work that may take more than 5 ms. It makes no requests, so a dry run does it too; its
    errors are raised here. Work whose flow was closed ends by itself.
    """
    return cast("T", (yield PoolCall(work)))


def unpack_settled(outcome: T | Exception) -> T:
    """The result of a child that a gather settled, or the error it failed with, raised."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def reading(model: str, problem: str = "") -> Flow[None]:
    """Report that a reply of ``model`` was read, with what was wrong; empty if it was used.

    If none of the first replies can be used, the user is warned while the run goes on.
    """
    yield ReplyCheck(model, problem)


def branch(low: int, expected: int, high: int) -> Flow[int | None]:
    """Declare how often a branch that depends on replies is taken.

    Returns None in a real run: the flow decides by the replies. In a dry run it returns
    the count of the scenario being forecast, which the flow must then follow.
    """
    return cast("int | None", (yield Branch(low, expected, high)))


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
        left: True if its reader has left; replies in flight are still stored.
    """

    scope: str = ""
    deadline: float | None = None
    sink: Callable[[str], None] | None = None
    trace: list[TraceEntry] | None = None
    scenario: Scenario | None = None
    streamed: bool = False
    sources: tuple[str, ...] = ()
    left: bool = False

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
