"""Bodies of the OpenAI protocol, as the scripted server sends them."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

DIMENSIONS = 16


class _Request(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def body(self) -> Any: ...


class _Reply(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def finish(self) -> str: ...
    @property
    def usage(self) -> tuple[int, int] | None: ...
    @property
    def error(self) -> Mapping[str, Any] | Sequence[Any] | str: ...
    @property
    def vectors(self) -> Sequence[Sequence[float]] | None: ...
    @property
    def malformed(self) -> str: ...


def error_body(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error body in OpenAI's shape."""
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    }


def word_vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A unit vector that counts the words of a text by their hash: equal texts, equal vectors."""
    counts = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        counts[zlib.crc32(word.encode()) % dimensions] += 1.0
    norm = math.sqrt(sum(c * c for c in counts)) or 1.0
    return [c / norm for c in counts]


def reply_body(request: _Request, reply: _Reply, models: Sequence[str]) -> tuple[int, bytes, str]:
    """Status, body and content type of a reply that is not streamed."""
    kind = "application/json"
    if reply.malformed == "html":
        return reply.status, b"<html><body>Welcome</body></html>", "text/html"
    if reply.malformed == "empty":
        return reply.status, b"", kind
    if reply.status >= 400:
        error = error_body(reply.error) if isinstance(reply.error, str) else reply.error
        return reply.status, json.dumps(error).encode(), kind
    if reply.malformed == "error_in_200":
        error = error_body("overloaded") if isinstance(reply.error, str) else reply.error
        return 200, json.dumps(error).encode(), kind
    body = _success(request, reply, models)
    if body is None:
        return 404, json.dumps(error_body(f"no such path: {request.path}")).encode(), kind
    if reply.malformed == "no_choices":
        for key in ("choices", "data"):
            if key in body:
                body[key] = []
    raw = json.dumps(body).encode()
    if reply.malformed == "json":
        raw = raw[:-7]
    return reply.status, raw, kind


def _success(request: _Request, reply: _Reply, models: Sequence[str]) -> dict[str, Any] | None:
    path = request.path.partition("?")[0]
    if path.endswith("/chat/completions"):
        return _chat(request, reply)
    if path.endswith("/completions"):
        return _completion(request, reply)
    if path.endswith("/embeddings"):
        return _embeddings(request, reply)
    if path.endswith("/rerank"):
        return _rerank(request, reply)
    if path.endswith("/models"):
        return {"object": "list", "data": [{"id": m, "object": "model"} for m in models]}
    return None


def _model(request: _Request) -> str:
    return str(request.body.get("model", "")) if isinstance(request.body, dict) else ""


def _usage(request: _Request, reply: _Reply) -> dict[str, int] | None:
    if reply.usage is None:
        return None
    prompt, completion = reply.usage
    if prompt < 0:
        prompt = max(1, len(_prompt_text(request.body)) // 4)
    if completion < 0:
        completion = len(reply.text) // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _prompt_text(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    if "messages" in body:
        return "".join(str(m.get("content", "")) for m in body["messages"])
    return str(body.get("prompt", body.get("input", "")))


def _with_usage(body: dict[str, Any], usage: dict[str, int] | None) -> dict[str, Any]:
    if usage is not None:
        body["usage"] = usage
    return body


def _chat(request: _Request, reply: _Reply) -> dict[str, Any]:
    content = None if reply.malformed == "null_content" else reply.text
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": reply.finish,
    }
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": _model(request),
        "choices": [choice],
    }
    return _with_usage(body, _usage(request, reply))


def _completion(request: _Request, reply: _Reply) -> dict[str, Any]:
    text = reply.text
    if request.body.get("echo"):
        text = str(request.body.get("prompt", "")) + text
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": reply.finish}
    if request.body.get("logprobs") is not None:
        tokens = re.findall(r"\s*\S+", text)
        scores = [-(zlib.crc32(t.encode()) % 1000) / 250 for t in tokens]
        choice["logprobs"] = {
            "tokens": tokens,
            "token_logprobs": [None, *scores[1:]] if request.body.get("echo") else scores,
            "text_offset": [m.start() for m in re.finditer(r"\s*\S+", text)],
        }
    body = {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 0,
        "model": _model(request),
        "choices": [choice],
    }
    return _with_usage(body, _usage(request, reply))


def _embeddings(request: _Request, reply: _Reply) -> dict[str, Any]:
    texts = request.body.get("input", [])
    texts = [texts] if isinstance(texts, str) else texts
    width = request.body.get("dimensions") or DIMENSIONS
    vectors = reply.vectors or [word_vector(t, width) for t in texts]
    coded = request.body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": (
                base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() if coded else list(v)
            ),
        }
        for index, v in enumerate(vectors)
    ]
    body = {"object": "list", "model": _model(request), "data": data}
    return _with_usage(body, _usage(request, reply))


def _rerank(request: _Request, reply: _Reply) -> dict[str, Any]:
    """Scores by words in common, best first, as rerank servers order them."""
    query = word_vector(str(request.body.get("query", "")), 256)
    vectors = [word_vector(str(d), 256) for d in request.body.get("documents", [])]
    scores = [sum(a * b for a, b in zip(query, v, strict=True)) for v in vectors]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    results = [{"index": i, "relevance_score": scores[i]} for i in order]
    if reply.malformed == "no_choices":
        results = results[1:]
    return {"model": _model(request), "results": results, "usage": {"total_tokens": 42}}


def frames(request: _Request, reply: _Reply) -> Iterator[bytes]:
    """The server-sent events of a streamed chat: role, pieces, finish, usage, ``[DONE]``.

    A reply that is cut sends half of its pieces and nothing after them.
    """
    pieces = re.findall(r"\s*\S+\s*", reply.text) or [reply.text]
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0}

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {**base, "model": _model(request), "choices": choices, **more}
        return f"data: {json.dumps(chunk)}\n\n".encode()

    def delta(content: dict[str, Any], finish: str | None = None) -> bytes:
        return event([{"index": 0, "delta": content, "finish_reason": finish}])

    yield delta({"role": "assistant", "content": ""})
    whole = not reply.malformed
    for piece in pieces if whole else pieces[: len(pieces) // 2]:
        yield delta({"content": piece})
    if reply.malformed == "error_event":
        error = error_body("overloaded") if isinstance(reply.error, str) else reply.error
        yield f"data: {json.dumps(error)}\n\n".encode()
    if not whole:
        return
    yield delta({}, reply.finish)
    usage = _usage(request, reply)
    options = request.body.get("stream_options") or {}
    if usage is not None and options.get("include_usage"):
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"
