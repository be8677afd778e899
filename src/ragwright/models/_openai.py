"""Chat, completions and embeddings of any server that speaks the OpenAI protocol."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import ModelRefusedError, Usage, count_noun
from ..flow import Chat, ChatReply, Complete, CompleteReply, OnDelta
from ._embedding import ChatModel, Matrix, vector_fault
from ._failures import Heard
from ._names import ModelTarget
from ._replies import CleanStream, ReplyReader, clean_text, drop_thought, read_chat, token_usage
from ._transport import Connections, OpenAIServer, server_identity, stream_events

if TYPE_CHECKING:
    import httpx2

_FINISH = {
    "complete": "stop",
    "content_filtered": "content_filter",
    "end_turn": "stop",
    "eos": "stop",
    "function_call": "tool_calls",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "model_length": "length",
    "recitation": "content_filter",
    "safety": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
"""Finish reasons of other dialects and OpenAI's names for them."""

_OWN = {"stream_options", "encoding_format"}
"""Parameters that ragwright adds: leaving them out changes no reply, so there is no note."""

EMBED_BATCH = 96
"""Most texts of one embeddings call: the smallest limit of the known providers."""


class OpenAIChat(ChatModel):
    """A chat model behind an OpenAI-compatible server.

    One call is one attempt. A parameter that the model rejects is left out (the limit on
    tokens is renamed instead), remembered for the model, and named in the reply's
    ``dropped``. Tokens are the server's count; where it sends none they are estimated at
    four characters a token.

    Args:
        target: Where the model is found.
        connections: Clients to share.
    """

    def __init__(self, target: ModelTarget, connections: Connections | None = None) -> None:
        self._connections = connections or Connections()
        self._server = OpenAIServer(target, self._connections)
        self.target = target
        self.identity = server_identity(target)
        self._closes_bare = False

    async def chat(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        """One attempt at a chat completion; streamed where ``on_delta`` is given.

        Raises:
            ModelError: Typed by what may be done about it; a stream that ends neither with a
                finish reason nor with ``[DONE]`` is a ModelReplyError.
        """
        reader = ReplyReader(holds=self._closes_bare)
        reply = await read_chat(reader, partial(self._chat, request), on_delta)
        self._closes_bare = self._closes_bare or reader.bare
        return reply

    async def _chat(self, request: Chat, on_delta: OnDelta | None) -> ChatReply:
        """The reply as the server sent it, the thought included."""
        body = self._request_body(request.params)
        body["messages"] = [{"role": m.role, "content": m.content} for m in request.messages]
        if request.schema:
            body["response_format"] = response_format(request.schema)
        if on_delta is not None:
            body |= {"stream": True, "stream_options": {"include_usage": True}}

        async def read(response: httpx2.Response, heard: Heard) -> dict[str, Any]:
            if on_delta is None or "json" in response.headers.get("content-type", ""):
                return await self._server.read(response, heard)  # some servers do not stream
            return await self._joined_stream(response, on_delta, heard)

        data, changed = await self._server.attempt("/chat/completions", body, request.timeout, read)
        choice = self._first_choice(data)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise self._server.bad_reply("sent a choice without a message")
        finish, text = _finish_reason(choice), _content_text(message.get("content"))
        prompt_length = sum(len(m.content) for m in request.messages)
        usage, note = token_usage(data.get("usage"), prompt_length, len(text))
        notes = [note]
        if finish == "unknown":
            finish = "stop"
            notes.append("the stream ended without a finish reason")
        if not text.strip() and (refusal := message.get("refusal")):
            text, finish = clean_text(str(refusal), self.target.key()), "refusal"
        elif not text.strip() and (message.get("tool_calls") or message.get("function_call")):
            finish = "tool_calls"
        extra = data.get("ragwright")
        return ChatReply(
            text,
            usage=usage,
            finish=finish,
            model=self._reported_model(data),
            dropped=tuple(name for name in changed if name not in _OWN),
            notes=tuple(filter(None, notes)),
            extra=json.dumps(extra) if isinstance(extra, dict) else "",
        )

    async def complete(self, request: Complete) -> CompleteReply:
        """One attempt at a raw completion.

        ``tokens`` leaves out those for which the server gives no log-probability (the first
        one of an echoed prompt).
        """
        body = self._request_body(request.params)
        body["prompt"] = request.prompt
        if request.logprobs is not None:
            body["logprobs"] = request.logprobs
        data, changed = await self._server.send("/completions", body, request.timeout)
        choice = self._first_choice(data)
        text = _content_text(choice.get("text"))
        try:
            tokens = _token_logprobs(choice)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._server.bad_reply(f"sent invalid log-probabilities: {error}") from None
        if request.logprobs is None:
            text = drop_thought(text)
        return CompleteReply(
            text,
            usage=token_usage(data.get("usage"), len(request.prompt), len(text))[0],
            finish=_finish_reason(choice),
            model=self._reported_model(data),
            dropped=tuple(name for name in changed if name not in _OWN),
            tokens=tokens,
        )

    async def aclose(self) -> None:
        """Close the clients, those of the other models that share them included."""
        await self._connections.aclose()

    def _request_body(self, params: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        return {"model": self.target.name, **self.target.settings.params, **dict(params)}

    def _first_choice(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        choice = _choice_zero(data.get("choices"))
        if choice is None:
            raise self._server.bad_reply("sent a reply without choices")
        return choice

    def _reported_model(self, data: Mapping[str, Any]) -> str:
        """The model that the server reports; the requested one if that is not a name."""
        name = data.get("model")
        named = name if isinstance(name, str) and name else self.target.name
        return clean_text(named, self.target.key())

    async def _joined_stream(
        self, response: httpx2.Response, hand_on: Callable[[str], None], heard: Heard
    ) -> dict[str, Any]:
        message: dict[str, Any] = {}
        reply: dict[str, Any] = {}
        finish: Any = None
        clean = CleanStream(self.target.key())
        content = ""
        async for event in stream_events(self._server.pieces(response, heard)):
            if event == "[DONE]":
                finish = finish or "unknown"
                break
            chunk = json.loads(event)
            choices = (chunk.get("choices") or []) if isinstance(chunk, dict) else [chunk]
            if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
                raise self._server.bad_reply("streamed choices that are not objects")
            if chunk.get("error"):
                raise self._server.upstream(chunk, response.headers)
            reply["model"] = chunk.get("model") or reply.get("model")
            reply["usage"] = chunk.get("usage") or reply.get("usage")
            choice = _choice_zero(choices) or {}  # an event with token counts only has none
            delta = choice.get("delta") or {}
            if not isinstance(delta, dict):
                raise self._server.bad_reply("streamed a delta that is not an object")
            piece = clean.feed(_content_text(delta.get("content")))
            hand_on(piece)
            content += piece
            message["refusal"] = message.get("refusal", "") + _content_text(delta.get("refusal"))
            for field in ("tool_calls", "function_call"):
                message[field] = delta.get(field) or message.get(field)
            finish = choice.get("finish_reason") or finish
        if not finish:
            raise self._server.bad_reply("cut its stream off")
        piece = clean.feed("", last=True)
        hand_on(piece)
        message["content"] = content + piece
        return {**reply, "choices": [{"message": message, "finish_reason": finish}]}


class OpenAIEmbeddings:
    """An embedding model behind an OpenAI-compatible server.

    Args:
        target: Where the model is found.
        connections: Clients to share.
        dimensions: Length of the vectors to ask for, None for the model's own.
    """

    def __init__(
        self, target: ModelTarget, connections: Connections, dimensions: int | None = None
    ) -> None:
        self.target = target
        self.dimensions = dimensions
        self._server = OpenAIServer(
            target, connections, most=target.settings.batch_size or EMBED_BATCH
        )
        self._paid: dict[tuple[str, ...], tuple[Matrix, Usage]] = {}

    async def embed(
        self,
        texts: Sequence[str],
        timeout: float | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
        role: Literal["query", "passage"] = "query",
    ) -> tuple[Matrix, Usage]:
        """Vectors as the server gives them: float32, shape (texts, dimensions), and the usage.

        Texts go in calls of at most ``batch_size``, or what the server takes, which is learnt, one
        after the other; ``before`` is awaited ahead of each. Where a call fails, what came before
        it is kept: the next attempt sends the rest alone, and its usage counts everything.

        Raises:
            ModelReplyError: Vectors missing, of unequal length, not finite, of an impossible norm
                (see :func:`vector_fault`), or the same for all texts.
            ModelRefusedError: Vectors of another length than ``dimensions``.
            ModelError: Any other failure of the server.
        """
        params = getattr(self.target.settings, f"{role}_params")

        async def send(part: Sequence[str]) -> tuple[Matrix, Usage]:
            key = (role, *part)
            if key not in self._paid:
                if before is not None:
                    await before()
                self._paid[key] = await self._embed_batch(part, timeout, params)
            return self._paid[key]

        parts = await self._server.send_in_parts(texts, send)
        self._paid.clear()
        vectors = [rows for rows, _ in parts]
        if len({rows.shape[1] for rows in vectors}) > 1:
            raise self._server.bad_reply("sent vectors of unequal length")
        empty = np.zeros((0, self.dimensions or 0), np.float32)
        return (np.concatenate(vectors) if vectors else empty), _total(parts)

    async def _embed_batch(
        self, texts: Sequence[str], timeout: float | None, params: Mapping[str, Any]
    ) -> tuple[Matrix, Usage]:
        body: dict[str, Any] = {
            "model": self.target.name,
            **self.target.settings.params,
            **params,
            "input": list(texts),
            "encoding_format": "base64",
        }
        if self.dimensions:
            body["dimensions"] = self.dimensions
        data, _ = await self._server.send("/embeddings", body, timeout)
        vectors = self._vectors_of_reply(data.get("data"), texts)
        if self.dimensions and vectors.shape[1] != self.dimensions:
            raise ModelRefusedError(
                f"{self._server.model} sent vectors of length {vectors.shape[1]} "
                f"instead of {self.dimensions}",
                where=self.target.base,
                hint="leave dimensions unset: this model cannot shorten its vectors",
            )
        return vectors, token_usage(data.get("usage"), sum(map(len, texts)), 0)[0]

    def _vectors_of_reply(self, entries: Any, texts: Sequence[str]) -> Matrix:
        listed_entries = entries if isinstance(entries, list) else []
        if len(listed_entries) != len(texts):
            raise self._server.bad_reply(
                f"sent {len(listed_entries)} vectors for {count_noun(len(texts), 'text')}"
            )
        try:
            rows = order_entries(listed_entries, len(texts))
            vectors = np.stack([_vector_of(entry["embedding"]) for entry in rows])
        except (KeyError, TypeError, ValueError) as error:
            raise self._server.bad_reply(f"sent vectors that cannot be read: {error}") from None
        # For a text without a letter or digit zeros are acceptable.
        worded = np.array([any(map(str.isalnum, text)) for text in texts], np.bool_)
        checked_rows = vectors[worded | ~np.isfinite(vectors).all(axis=1)]
        if fault := vector_fault(checked_rows) or _one_for_all(vectors, texts):
            raise self._server.bad_reply(f"sent {fault}")
        return vectors.astype(np.float32)


def _total(parts: Sequence[tuple[Any, Usage]]) -> Usage:
    """The usage of several calls."""
    return sum((usage for _, usage in parts), Usage())


def order_entries(entries: Sequence[Any], count: int) -> list[Mapping[str, Any]]:
    """Entries of a reply by their ``index``, each from 0 to count - 1 once.

    If none has an index, their order is used.

    Raises:
        ValueError: An entry is not an object, or the indices are not these.
    """
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("an entry is not an object")
    by_index = {entry.get("index", at): entry for at, entry in enumerate(entries)}
    if {type(index) for index in by_index} - {int} or sorted(by_index) != list(range(count)):
        raise ValueError("their indices do not name each input exactly once")
    return [by_index[at] for at in range(count)]


def _vector_of(value: Any) -> NDArray[np.float64]:
    """One vector of a reply: base 64 of float32, or a list of numbers."""
    if isinstance(value, str):
        row = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
    elif isinstance(value, list):
        row = np.asarray(value)
    else:
        raise ValueError("a vector is not a list")
    if row.dtype.kind not in "fi" or row.ndim != 1 or not len(row):
        raise ValueError("a vector is not a list of numbers")
    return row.astype(np.float64)


def _one_for_all(vectors: NDArray[np.float64], texts: Sequence[str]) -> str:
    """The fault if different texts all got the same vector; else empty."""
    if len(texts) < 2 or (vectors != vectors[0]).any():
        return ""
    different = {"".join(c for c in text.casefold() if c.isalnum()) for text in texts}
    return f"one vector for {len(different)} different texts" if len(different) > 1 else ""


@lru_cache(maxsize=64)
def response_format(schema: str) -> Mapping[str, Any]:
    """The protocol's parameter for a JSON schema; do not change it, as stored keys contain it.

    It is ``strict``: every object of a schema must be closed and require all of its properties.
    """
    parsed = json.loads(schema)
    name = parsed.get("title", "reply") if isinstance(parsed, dict) else "reply"
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)[:64] or "reply"
    return {"type": "json_schema", "json_schema": {"name": name, "schema": parsed, "strict": True}}


def _choice_zero(choices: Any) -> Mapping[str, Any] | None:
    """The choice with the index 0, which servers may omit; None if there is none."""
    choice_list = choices if isinstance(choices, list) else []
    return next((c for c in choice_list if isinstance(c, dict) and not c.get("index")), None)


def _content_text(content: Any) -> str:
    """Text of a content: a string, null, or parts, of which the text parts are joined."""
    if isinstance(content, list):
        parts = [p for p in content if isinstance(p, dict) and p.get("type", "text") == "text"]
        return "".join(str(p.get("text") or "") for p in parts)
    return content if isinstance(content, str) else ""


def _finish_reason(choice: Mapping[str, Any]) -> str:
    stated = choice.get("finish_reason")
    reason = stated.lower() if isinstance(stated, str) and stated else "stop"
    return _FINISH.get(reason, reason)


def _token_logprobs(choice: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return ()
    pairs = zip(logprobs.get("tokens") or (), logprobs.get("token_logprobs") or (), strict=False)
    tokens = tuple((str(token), float(score)) for token, score in pairs if score is not None)
    if any(math.isnan(score) for _, score in tokens):
        raise ValueError("NaN")
    return tokens


_MOST_PASSAGES = 1000
"""Most passages of one call, as Cohere and Voyage take them."""


class ServerReranker:
    """A reranking model behind ``POST base/rerank``.

    Replies are read in the shapes of Cohere, Jina and vLLM (``results``), Voyage (``data``) and
    text-embeddings-inference (``texts`` in, a list out). Passages go in calls of at most
    1,000, or what the server takes, which is learnt.

    Args:
        target: Location of the model; its base may differ from the provider's.
        connections: Clients to share.
    """

    scale = "as the server gives it"

    def __init__(self, target: ModelTarget, connections: Connections) -> None:
        self.target = target
        self._server = OpenAIServer(target, connections, most=_MOST_PASSAGES)
        self.identity = server_identity(target)
        self._field = "documents"

    async def score(
        self, query: str, passages: Sequence[str], timeout: float | None = None
    ) -> tuple[tuple[float, ...], Usage]:
        """One score per passage, and the usage (estimated where the server sends none).

        Raises:
            ModelReplyError: Scores missing or not numbers.
            ModelError: Whatever else the server does.
        """
        parts = await self._server.send_in_parts(
            passages, partial(self._score_part, query, timeout)
        )
        return tuple(score for scores, _ in parts for score in scores), _total(parts)

    async def _score_part(
        self, query: str, timeout: float | None, passages: Sequence[str]
    ) -> tuple[tuple[float, ...], Usage]:
        body: dict[str, Any] = {
            "model": self.target.name,
            **self.target.settings.params,
            "query": query,
            self._field: list(passages),
            "top_n": len(passages),
        }
        if self._field == "texts":
            del body["top_n"]
        try:
            data, _ = await self._server.send("/rerank", body, timeout)
        except ModelRefusedError as error:
            if self._field == "texts" or not re.search(r"\btexts\b", error.what):
                raise
            self._field = "texts"  # text-embeddings-inference
            return await self._score_part(query, timeout, passages)
        try:
            scores = _passage_scores(data.get("results") or data.get("data"), passages)
        except (TypeError, ValueError) as error:
            raise self._server.bad_reply(f"sent scores that cannot be read: {error}") from None
        usage = data.get("usage")
        counted = usage.get("total_tokens") if isinstance(usage, dict) else None
        characters = len(query) * len(passages) + sum(map(len, passages))
        return scores, token_usage({"prompt_tokens": counted}, characters, 0)[0]


def _passage_scores(results: Any, passages: Sequence[str]) -> tuple[float, ...]:
    """One score per passage, from the entries of a reply."""
    entries = results if isinstance(results, list) else []
    if len(entries) != len(passages):
        raise ValueError(
            f"{count_noun(len(entries), 'score')} for {count_noun(len(passages), 'passage')}"
        )
    scores = []
    for entry, passage in zip(order_entries(entries, len(passages)), passages, strict=True):
        score: Any = entry.get("relevance_score", entry.get("score"))
        if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:
            raise ValueError("a score is not a finite number")
        document = entry.get("document")
        text = document.get("text") if isinstance(document, dict) else document
        if text != passage and text in passages:
            raise ValueError("an index does not match its passage")
        scores.append(float(score))
    return tuple(scores)
