"""Keys of durable requests and the stored form of their replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..core import StoreDamagedError, Usage, canonical_json, make_plain, text_hash
from ._requests import (
    INCOMPLETE,
    AskSystem,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Fetch,
    FetchReply,
    Message,
    Reply,
    Request,
    Rerank,
    RerankReply,
    SystemReply,
)


def reply_key(request: Request, identity: str, scope: str, attempt: int) -> str:
    """Key of a durable reply: everything that determines it, and its scope (rule 10)."""
    return text_hash(
        canonical_json([type(request).__name__, identity, scope, attempt, payload(request)])
    )


def payload(request: Request) -> list[Any]:
    """Return the parts of a request that determine its reply, as JSON-able values."""
    parts = [_plain(getattr(request, each.name)) for each in fields(request) if each.compare]
    if isinstance(request, Embed):
        return [*parts, "checked"]  # excludes vectors that were stored without a check
    if isinstance(request, AskSystem) and not request.history:
        return parts[:-1]
    return parts


def _plain(value: Any) -> Any:
    """Return a turn of a chat as a pair, and turns as pairs."""
    if isinstance(value, Message):
        return [value.role, value.content]
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def reusable(reply: Reply) -> bool:
    """False for replies that must not be reused: truncated or empty ones."""
    if isinstance(reply, ChatReply | CompleteReply):
        return bool(reply.text.strip()) and reply.finish not in INCOMPLETE
    return not isinstance(reply, FetchReply) or reply.status == 200


def encode(reply: Reply) -> bytes:
    """Stored form of a durable reply."""
    if isinstance(reply, EmbedReply):
        vectors = np.ascontiguousarray(reply.vectors, dtype=np.float32)
        head = {"shape": vectors.shape, "usage": make_plain(reply.usage)}
        return json.dumps(head).encode() + b"\n" + vectors.tobytes()
    if isinstance(reply, FetchReply):
        page = {"url": reply.url, "status": reply.status, "headers": dict(reply.headers)}
        return json.dumps(page).encode() + b"\n" + reply.body
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
    if kind is Fetch:
        head, _, raw = data.partition(b"\n")
        return FetchReply(**json.loads(head), body=raw, cached=True)
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
_VALIDATORS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}


def conditional(request: Request, known: Reply) -> Request:
    """The request with validators of the stored reply; unchanged if the server sent none."""
    if not isinstance(request, Fetch) or not isinstance(known, FetchReply):
        return request
    own = {name.lower() for name, _ in request.headers}
    headers = {name.lower(): value for name, value in known.headers.items()}
    added = tuple(
        (header, headers[name])
        for name, header in _VALIDATORS.items()
        if headers.get(name) and header.lower() not in own
    )
    return replace(request, headers=request.headers + added)


def is_unchanged(reply: Reply) -> bool:
    """True if the server says that the stored reply is still valid."""
    return isinstance(reply, FetchReply) and reply.status == 304


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
    """The sources of a reply, so that it can be forgotten; for a page its address."""
    if isinstance(request, Fetch):
        return (request.url,)
    return tuple(getattr(request, "sources", ()))


def is_cached(reply: Reply) -> bool:
    """True where a reply came from the reply store."""
    return bool(getattr(reply, "cached", False))
