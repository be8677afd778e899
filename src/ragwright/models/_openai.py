"""Chat, completions and embeddings of any server that speaks the OpenAI protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core import ModelError, ModelRefusedError, Usage
from ..flow import Chat, ChatReply, Complete, CompleteReply, OnDelta
from ._failures import bad_reply
from ._limits import Heard
from ._names import Target
from ._seams import ChatModel, Matrix
from ._transport import Connections, OpenAIServer

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_FINISH = {
    "complete": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "stop_sequence": "stop",
}
"""Finish reasons of other dialects, in OpenAI's words."""

_OWN = {"stream_options", "encoding_format"}
"""Parameters we add for ourselves: leaving them out changes no reply, so nobody is told."""

EMBED_BATCH = 96
"""Most texts of one embeddings call: the smallest limit of the known providers."""


KEPT_PARTS = 64
"""Most answered calls kept of embeddings that failed later: 38 MB for 1536 dimensions."""

_Part: TypeAlias = tuple[Matrix, Usage]


class OpenAIChat(ChatModel):
    """A chat model behind an OpenAI-compatible server.

    One call is one attempt. A parameter that the model rejects is left out (the limit on
    tokens is renamed instead), remembered for the model, and named in the reply's
    ``dropped``. Tokens are the server's count; where it sends none they are estimated at
    four characters a token.

    Args:
        target: Where the model is found.
        connections: Clients to share; its owner closes them.
    """

    def __init__(self, target: Target, connections: Connections | None = None) -> None:
        self._own = connections is None
        self._connections = connections or Connections()
        self._server = OpenAIServer(target, self._connections)
        self.target = target
        self.identity = self._server.identity

    async def chat(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """One attempt at a chat completion; streamed where ``on_delta`` is given.

        Raises:
            ModelError: Typed by what may be done about it; a stream that ends without a
                finish reason is a ModelReplyError.
        """
        body = self._body(request.params)
        body["messages"] = [{"role": m.role, "content": m.content} for m in request.messages]
        if request.schema:
            body["response_format"] = response_format(request.schema)
        if on_delta is None:
            data, changed = await self._server.send("/chat/completions", body, request.timeout)
        else:
            data, changed = await self._stream(body, request.timeout, on_delta)
        choice = self._choice(data)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise bad_reply(self._server.model, self.target.base, "sent a choice without a message")
        text = _text(message.get("content"))
        refused = not text and message.get("refusal")
        return ChatReply(
            text,
            usage=_usage(data, sum(len(m.content) for m in request.messages), len(text)),
            finish="content_filter" if refused else _finish(choice),
            model=str(data.get("model") or self.target.name.name),
            dropped=tuple(name for name in changed if name not in _OWN),
        )

    async def complete(self, request: Complete) -> CompleteReply:
        """One attempt at a raw completion.

        ``tokens`` leaves out those for which the server gives no log-probability (the first
        one of an echoed prompt).
        """
        body = self._body(request.params)
        body["prompt"] = request.prompt
        if request.logprobs is not None:
            body["logprobs"] = request.logprobs
        data, changed = await self._server.send("/completions", body, request.timeout)
        choice = self._choice(data)
        text = _text(choice.get("text"))
        return CompleteReply(
            text,
            usage=_usage(data, len(request.prompt), len(text)),
            finish=_finish(choice),
            model=str(data.get("model") or self.target.name.name),
            dropped=tuple(name for name in changed if name not in _OWN),
            tokens=_token_logprobs(choice),
        )

    async def aclose(self) -> None:
        """Close the clients, where they are this model's own."""
        if self._own:
            await self._connections.aclose()

    def _body(self, params: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        return {"model": self.target.name.name, **self.target.settings.params, **dict(params)}

    def _choice(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        choices = data.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise bad_reply(self._server.model, self.target.base, "sent a reply without choices")
        return choices[0]

    async def _stream(
        self, body: dict[str, Any], timeout: float | None, on_delta: OnDelta
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The streamed reply, put together in the shape of one that was not."""
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}

        async def call(client: AsyncOpenAI, heard: Heard) -> dict[str, Any]:
            from openai import AsyncStream

            stream = await client.post(
                "/chat/completions",
                cast_to=object,
                body=body,
                stream=True,
                stream_cls=AsyncStream[object],
            )
            response = stream.response
            try:
                if "json" in response.headers.get("content-type", ""):
                    # The server does not stream: take its reply as one piece.
                    data = self._server.parse(
                        await self._server.read(response, heard), response.headers
                    )
                    on_delta(_text(self._choice(data).get("message", {}).get("content")))
                    return data
                return await self._gathered(stream, on_delta, heard)
            finally:
                await stream.close()

        return await self._server.attempt(call, body, timeout)

    async def _gathered(self, stream: Any, on_delta: OnDelta, heard: Heard) -> dict[str, Any]:
        pieces: list[str] = []
        finish = ""
        whole: dict[str, Any] = {}
        async for chunk in stream:
            heard()
            if not isinstance(chunk, dict):
                raise bad_reply(self._server.model, self.target.base, "streamed a non-object")
            whole["model"] = chunk.get("model") or whole.get("model")
            whole["usage"] = chunk.get("usage") or whole.get("usage")
            for choice in (chunk.get("choices") or [])[:1]:
                piece = _text((choice.get("delta") or {}).get("content"))
                if piece:
                    pieces.append(piece)
                    on_delta(piece)
                finish = choice.get("finish_reason") or finish
        if not finish:
            raise bad_reply(self._server.model, self.target.base, "cut its stream off")
        message = {"content": "".join(pieces)}
        return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


class OpenAIEmbeddings:
    """An embedding model behind an OpenAI-compatible server.

    Args:
        target: Where the model is found.
        connections: Clients to share.
    """

    def __init__(self, target: Target, connections: Connections) -> None:
        self.target = target
        self._server = OpenAIServer(target, connections)
        self._kept: dict[tuple[str, ...], _Part] = {}

    async def embed(
        self,
        texts: Sequence[str],
        timeout: float | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[Matrix, Usage]:
        """Vectors as the server gives them: float32, shape (texts, dimensions), and the usage.

        Texts go in calls of at most ``batch_size``, one after the other; ``before`` is awaited
        ahead of each. Where a call fails, what came before it is kept: the next attempt sends
        the rest alone, and its usage counts everything.

        Raises:
            ModelReplyError: Vectors missing, of unequal length, or not finite.
            ModelRefusedError: Vectors of another length than ``dimensions`` asks for.
            ModelError: Whatever else the server does.
        """
        size = self.target.settings.batch_size or EMBED_BATCH
        done: list[tuple[tuple[str, ...], _Part]] = []
        try:
            for start in range(0, len(texts), size):
                part = tuple(texts[start : start + size])
                found = self._kept.pop(part, None)
                if found is None:
                    if before is not None:
                        await before()
                    found = await self._call(part, timeout)
                done.append((part, found))
        except BaseException:  # a stop and a time limit, too, leave paid vectors behind
            self._kept.update(done)
            for part in list(self._kept)[:-KEPT_PARTS]:
                del self._kept[part]
            raise
        parts = [vectors for _, (vectors, _) in done]
        usage = sum((used for _, (_, used) in done), Usage())
        if not parts:
            return np.zeros((0, self.target.settings.dimensions or 0), np.float32), usage
        if len({part.shape[1] for part in parts}) > 1:
            raise self._bad("sent vectors of unequal length")
        return np.concatenate(parts), usage

    async def _call(self, texts: Sequence[str], timeout: float | None) -> tuple[Matrix, Usage]:
        settings = self.target.settings
        body: dict[str, Any] = {
            "model": self.target.name.name,
            **settings.params,
            "input": list(texts),
            "encoding_format": "base64",
        }
        if settings.dimensions:
            body["dimensions"] = settings.dimensions
        data, _ = await self._server.send("/embeddings", body, timeout)
        vectors = self._vectors(data.get("data"), len(texts))
        if settings.dimensions and vectors.shape[1] != settings.dimensions:
            raise ModelRefusedError(
                f"{self._server.model} sent vectors of length {vectors.shape[1]} "
                f"where {settings.dimensions} was asked",
                where=self.target.base,
                hint="leave dimensions unset: this model cannot shorten its vectors",
            )
        return vectors, _usage(data, sum(map(len, texts)), 0)

    def _vectors(self, entries: Any, count: int) -> Matrix:
        if not isinstance(entries, list) or len(entries) != count:
            found = len(entries) if isinstance(entries, list) else 0
            raise self._bad(f"sent {found} vectors for {count} texts")
        rows: list[Any] = [None] * count
        try:
            for place, entry in enumerate(entries):
                value = entry["embedding"]
                row = (
                    np.frombuffer(base64.b64decode(value), "<f4")
                    if isinstance(value, str)
                    else np.asarray(value, np.float32)
                )
                rows[entry.get("index", place)] = row
            vectors = np.stack(rows).astype(np.float32, copy=False)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise self._bad(f"sent vectors that cannot be read: {error}") from error
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise self._bad("sent vectors that are empty or not finite")
        return vectors

    def _bad(self, problem: str) -> ModelError:
        return bad_reply(self._server.model, self.target.base, problem)


@lru_cache(maxsize=64)
def response_format(schema: str) -> Mapping[str, Any]:
    """The protocol's words for "reply by this JSON schema"; not to be changed, they are kept.

    ``strict`` is asked for only where the schema meets its conditions: every object closed
    and all of its properties required.
    """
    parsed = json.loads(schema)
    name = parsed.get("title", "reply") if isinstance(parsed, dict) else "reply"
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)[:64] or "reply"
    described = {"name": name, "schema": parsed, "strict": _closed(parsed)}
    return {"type": "json_schema", "json_schema": described}


def _closed(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties or ()):
            return False
    return all(_closed(part) for part in schema.values())


def _text(content: Any) -> str:
    """Text of a content: a string, null, or parts of which the text ones count."""
    if isinstance(content, list):
        parts = [p for p in content if isinstance(p, dict) and p.get("type", "text") == "text"]
        return "".join(str(p.get("text") or "") for p in parts)
    return content if isinstance(content, str) else ""


def _finish(choice: Mapping[str, Any]) -> str:
    reason = str(choice.get("finish_reason") or "stop").lower()
    return _FINISH.get(reason, reason)


def _usage(data: Mapping[str, Any], prompt_characters: int, reply_characters: int) -> Usage:
    """The server's count; where it sends none, four characters a token."""
    found = data.get("usage")
    usage = found if isinstance(found, dict) else {}
    prompt = usage.get("prompt_tokens")
    completion = usage.get("completion_tokens")
    if not isinstance(prompt, int):
        prompt = (prompt_characters + 3) // 4
    if not isinstance(completion, int):
        completion = (reply_characters + 3) // 4
    return Usage(1, prompt, completion)


def _token_logprobs(choice: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    found = choice.get("logprobs")
    if not isinstance(found, dict):
        return ()
    pairs = zip(found.get("tokens") or (), found.get("token_logprobs") or (), strict=False)
    return tuple((str(token), float(score)) for token, score in pairs if score is not None)
