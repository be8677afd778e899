"""Typed verbs: the only functions of the program that contain a bare ``yield``.

A flow is a generator of requests. It contains ``reply = yield from chat(...)``; the verb yields
the request, checks once that the runner sent the right kind of reply, and returns it typed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from ..core import Filter, FlowError
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


def fetch(url: str, *, allow_private: bool = False) -> Flow[FetchReply]:
    """The content at an address."""
    return _expect(FetchReply, (yield Fetch(url, allow_private=allow_private)))


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
