"""Requests and replies: everything that costs money or waits for another program.

A request is a frozen record that a flow yields through a verb; a reply is the frozen record
it gets back. Handlers (`_handlers`) carry requests out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Filter,
    Hit,
    Relaxation,
    StoreDamagedError,
    Term,
    Usage,
    canonical_json,
    make_plain,
    text_hash,
)

Params: TypeAlias = tuple[tuple[str, Any], ...]
"""Model parameters as sorted (name, JSON value) pairs, so that requests stay hashable."""

Vector: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role (``system``, ``user``, ``assistant``) and text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat completion.

    Attributes:
        model: Model name as configured, ``provider:name``.
        messages: Turns in order.
        params: Parameters sent with it (temperature, max_tokens, seed, …).
        schema: JSON schema text the reply must follow, empty for free text.
        sample: Number of an independent sample; equal requests with one number are one call.
        stream: Deltas go to the driver's sink while the reply is being written.
        timeout: Seconds for one attempt; not part of the key.
        sources: Ids of the documents whose text the prompt holds, so that forgetting a document
            forgets what was made from it; not part of the key.
        likely: Least and usual number of tokens of the reply, if known; for dry runs only, not part
            of the key.
    """

    model: str
    messages: tuple[Message, ...]
    params: Params = ()
    schema: str = ""
    sample: int = 0
    stream: bool = field(default=False, compare=False)
    timeout: float | None = field(default=None, compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)
    likely: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Complete:
    """A completion of a raw prompt; ``logprobs`` asks for that many alternatives per token.

    ``likely`` as in :class:`Chat`.
    """

    model: str
    prompt: str
    params: Params = ()
    logprobs: int | None = None
    sample: int = 0
    timeout: float | None = field(default=None, compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)
    likely: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Embed:
    """Vectors for texts; queries and passages may be prefixed differently by the model.

    Vectors of passages live in the index, not in the reply store. Where ``sources`` is given
    they are kept there too, under that name, until the caller has put them into the index.
    """

    model: str
    texts: tuple[str, ...]
    role: Literal["query", "passage"] = "query"
    timeout: float | None = field(default=None, compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Search:
    """The k best chunks of one index snapshot by one channel.

    Attributes:
        snapshot: Name of the snapshot, as the index gave it.
        channel: ``keyword`` needs ``text``; ``dense`` needs ``vector``; ``all`` lists every
            chunk, documents by id and each document's chunks in text order, with score 0.
        text: Query text.
        vector: Query vector, float32 bytes of the snapshot's dimension.
        k: Most candidates to return.
        filters: Hard conditions; every candidate meets all of them.
        relax: Soft conditions that rank before the score.
        after: For ``all``: continue after this chunk.
        untraced: Left out of traces: its filters name documents that the user may not see.
    """

    snapshot: str
    channel: str
    k: int
    text: str = ""
    vector: bytes = b""
    filters: tuple[Filter, ...] = ()
    relax: Relaxation | None = None
    after: str = ""
    untraced: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The stored chunks behind candidates, by chunk id, in the order asked for.

    Attributes:
        vectors: Return the chunks' own vectors too.
    """

    snapshot: str
    chunk_ids: tuple[str, ...]
    vectors: bool = False


@dataclass(frozen=True, slots=True)
class Rerank:
    """Scores of passages for a query by one model."""

    model: str
    query: str
    passages: tuple[str, ...]
    timeout: float | None = field(default=None, compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Sql:
    """One read-only statement on a configured database.

    Attributes:
        database: Name of the database.
        statement: The statement.
        max_rows: Most rows of the reply.
        within: Of spreadsheets: the only tables that it may read, each by its name in the
            statement, its name in the file, and the hash of its document. If one of them has
            changed, the statement is not answered.
        timeout: Seconds that it may take.
    """

    database: str
    statement: str
    max_rows: int = 1000
    within: tuple[tuple[str, str, str], ...] = ()
    timeout: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fetch:
    """The content at an address; never stored."""

    url: str
    max_bytes: int = 50_000_000
    timeout: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AskSystem:
    """A question to a system under test, by the name under which it was opened.

    ``history`` holds the turns before the question, oldest first.
    """

    system: str
    question: str
    history: tuple[Message, ...] = ()


Request: TypeAlias = Chat | Complete | Embed | Search | Lookup | Rerank | Sql | Fetch | AskSystem


INCOMPLETE = {
    "length": "the reply was cut off before its end",
    "content_filter": "the server's content filter cut the reply",
    "refusal": "the model refused",
    "tool_calls": "the model called a tool in place of replying",
}
"""Ends of replies that are not whole replies, with what to say of each; they are never reused."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Text of a chat completion.

    Attributes:
        finish: ``stop``, or another end, such as those of :data:`INCOMPLETE`.
        model: Model the server says it used.
        dropped: Parameters the server rejected and that were left out.
        cached: True where the reply came from the reply store.
        notes: Notes on parts of the reply that were replaced.
        extra: JSON of the object ``ragwright`` that a ragwright server sends; else empty.
    """

    text: str
    usage: Usage = Usage()
    finish: str = "stop"
    model: str = ""
    dropped: tuple[str, ...] = ()
    cached: bool = False
    notes: tuple[str, ...] = ()
    extra: str = ""


@dataclass(frozen=True, slots=True)
class CompleteReply:
    """Text of a raw completion, with the log-probability of each token where asked for."""

    text: str
    usage: Usage = Usage()
    finish: str = "stop"
    model: str = ""
    dropped: tuple[str, ...] = ()
    tokens: tuple[tuple[str, float], ...] = ()
    cached: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EmbedReply:
    """Vectors, one row per text: float32, shape (texts, dimensions)."""

    vectors: Vector
    usage: Usage = Usage()
    cached: bool = False


@dataclass(frozen=True, slots=True)
class SearchReply:
    """Candidates (chunk id, score), best first, scores rounded to 6 digits, ties by id.

    Attributes:
        candidates: With soft filters: by weight of the relaxation level, then score, then id.
        rungs: With soft filters: the relaxation level of each candidate, bit i for ``soft[i]``.
        ladder: With soft filters: (level as in ``rungs``, number of chunks over the threshold) of
            every level that has any, heaviest first, down to the weight of the last candidate; with
            k = 0, or where fewer than k candidates were found, of all.
        terms: For ``keyword``: the terms looked for, in query order.
        notes: Notes for the user: an approximate result and its recall, a view that failed.
    """

    candidates: tuple[tuple[str, float], ...]
    rungs: tuple[int, ...] = ()
    ladder: tuple[tuple[int, int], ...] = ()
    terms: tuple[Term, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LookupReply:
    """Hits in the order of the request; their rank and score are left at 0.

    ``vectors`` has shape (chunks, dimensions) if requested and available.
    """

    hits: tuple[Hit, ...]
    vectors: Vector | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RerankReply:
    """One score per passage, higher is better; ``scale`` says what the numbers mean."""

    scores: tuple[float, ...]
    usage: Usage = Usage()
    cached: bool = False
    scale: str = ""


@dataclass(frozen=True, slots=True)
class SqlReply:
    """Columns and rows; ``truncated`` where a limit cut them, and ``notes`` which one.

    Attributes:
        read: Of spreadsheets: the tables that the statement read, each with first and last
            character, in its document, of the rows that the reply lists by number, or 0 and 0.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False
    notes: tuple[str, ...] = ()
    read: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchReply:
    """Body of an address after redirects; ``url`` is the last one."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class SystemReply:
    """The answer of a system under test.

    Attributes:
        response: The answer; None of a retriever, which only finds passages.
        contexts: Passages, best first.
        context_ids: Ids of their documents in the same order; empty where nothing was found, None
            where the system does not say.
        abstained: The system says that it did not answer.
        usage: One call, its seconds, and its cost where a price is set.
        cached: True where the reply came from the reply store.
    """

    response: str | None
    contexts: tuple[str, ...] = ()
    context_ids: tuple[str, ...] | None = None
    abstained: bool = False
    usage: Usage = field(default=Usage(), compare=False)
    cached: bool = field(default=False, compare=False)


Reply: TypeAlias = (
    ChatReply
    | CompleteReply
    | EmbedReply
    | SearchReply
    | LookupReply
    | RerankReply
    | SqlReply
    | FetchReply
    | SystemReply
)


def reply_key(request: Request, identity: str, scope: str, attempt: int) -> str:
    """Key of a durable reply: everything that determines it, and its scope."""
    parts = [_plain(getattr(request, each.name)) for each in fields(request) if each.compare]
    return text_hash(canonical_json([type(request).__name__, identity, scope, attempt, parts]))


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return [value.role, value.content]
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def reusable(reply: Reply) -> bool:
    """False for replies that must not be reused: truncated or empty ones."""
    if isinstance(reply, ChatReply | CompleteReply):
        return bool(reply.text.strip()) and reply.finish not in INCOMPLETE
    return True


def encode(reply: Reply) -> bytes:
    """Stored form of a durable reply."""
    if isinstance(reply, EmbedReply):
        vectors = np.ascontiguousarray(reply.vectors, dtype=np.float32)
        head = {"shape": vectors.shape, "usage": make_plain(reply.usage)}
        return json.dumps(head).encode() + b"\n" + vectors.tobytes()
    if isinstance(reply, ChatReply | CompleteReply | RerankReply | SystemReply):
        return json.dumps(make_plain(reply), ensure_ascii=False).encode("utf-8", "surrogatepass")
    raise TypeError(f"{type(reply).__name__} is never stored")


def decode(kind: type[Request], data: bytes) -> Reply:
    """The reply behind its stored form, marked as cached.

    Raises:
        StoreDamagedError: The stored form is damaged.
    """
    try:
        return _decoded(kind, data)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamagedError(
            f"a stored reply of kind {kind.__name__} is damaged",
            hint="run: ragwright cache clear (repeated calls are paid for again)",
        ) from error


def _decoded(kind: type[Request], data: bytes) -> Reply:
    if kind is Embed:
        head, _, raw = data.partition(b"\n")
        values = json.loads(head)
        vectors = np.frombuffer(raw, dtype=np.float32).reshape(values["shape"])
        return EmbedReply(vectors, Usage(**values["usage"]), cached=True)
    values = json.loads(data.decode("utf-8", "surrogatepass"))
    values["cached"] = True
    values["usage"] = Usage(**values["usage"])
    if kind is Complete:
        values["tokens"] = map(tuple, values["tokens"])
    for name in _TUPLES & values.keys():
        values[name] = None if values[name] is None else tuple(values[name])
    replies: dict[type[Request], Callable[..., Reply]] = {
        Chat: ChatReply,
        Complete: CompleteReply,
        Rerank: RerankReply,
        AskSystem: SystemReply,
    }
    return replies[kind](**values)


_TUPLES = {"dropped", "notes", "tokens", "scores", "contexts", "context_ids"}


def usage_of(reply: Reply) -> Usage:
    """Tokens and money of a reply, nothing for kinds without any."""
    return getattr(reply, "usage", Usage())


def price_reply(reply: Reply, usage: Usage) -> Reply:
    """The same reply with its usage priced."""
    if isinstance(reply, ChatReply | CompleteReply | EmbedReply | RerankReply | SystemReply):
        return replace(reply, usage=usage)
    return reply


def request_text(request: Request) -> str:
    """All text of a request that a model reads, to count its tokens."""
    if isinstance(request, Chat):
        return "".join(m.content for m in request.messages)
    if isinstance(request, Complete):
        return request.prompt
    if isinstance(request, Embed):
        return "".join(request.texts)
    if isinstance(request, Rerank):
        return request.query * len(request.passages) + "".join(request.passages)
    return ""


def sources_of(request: Request) -> tuple[str, ...]:
    """The sources of a reply, so that it can be forgotten."""
    return tuple(getattr(request, "sources", ()))
