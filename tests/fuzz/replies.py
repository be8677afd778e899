"""Doors for model servers: replies to chats, whole and streamed, embeddings and rerankings."""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from model_desk import REQUESTS, Desk, question
from raw_server import Raw, raw_server

from ragwright.core import RagwrightError
from ragwright.flow import ChatReply, EmbedReply, RerankReply
from ragwright.testing import ScriptedServer

from . import Run, Target
from .damage import damaged_bytes, damaged_value, encoded

KEY = "sk-proj-0123456789abcdefghij"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
STATUSES = (200, 200, 200, 200, 204, 307, 400, 401, 422, 429, 500)


def chat_body(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "x", "model": "m", "choices": [choice], "usage": USAGE}


def delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


ERROR = {"error": {"message": f"Unsupported parameter: 'n' {KEY}", "code": "x", "param": "n"}}
CHATS = (
    chat_body(content="It is 15000 km [1]."),
    chat_body(content=f"The key is {KEY}."),
    chat_body(content=[{"type": "text", "text": "in parts"}]),
    chat_body(content=None, refusal="no"),
    ERROR,
    {"detail": [{"loc": ["body", "n"], "msg": "extra fields not permitted", "type": "x"}]},
    "@deep@",
)
EVENTS = (
    [
        delta(role="assistant", content=""),
        delta(content=f"It is {KEY[:9]}"),
        delta(content=f"{KEY[9:]} \ud83d"),
        delta("stop", content="\ude00"),
        {"choices": [], "usage": USAGE},
    ],
    [{"choices": [{"delta": {"content": "It"}}]}, ERROR],
)
VECTORS: Sequence[Sequence[float]] = ((0.6, 0.8, 0.1), (0.1, 0.2, 0.9))
CODED = [base64.b64encode(np.array(v, "<f4").tobytes()).decode() for v in VECTORS]
EMBEDDINGS = tuple(
    {"data": [{"index": i, "embedding": v} for i, v in enumerate(form)], "usage": USAGE}
    for form in (list(map(list, VECTORS)), CODED)
)
RERANKINGS = (
    {"results": [{"index": i, "relevance_score": s} for i, s in ((1, 0.9), (0, 0.1))]},
    {"results": [{"index": 0, "relevance_score": 1, "document": {"text": "a bear"}}]},
)


def raw(value: Any, status: int = 200) -> Raw:
    """A case: a value as a JSON reply, a list as events, each with a kind to match."""
    headers = {"Location": "http://other.example/v1", "Retry-After": "0"} if status > 300 else {}
    if isinstance(value, list):
        body = b"".join(b"data: " + encoded(one) + b"\n\n" for one in [*value, "[DONE]"])
        return Raw(body, status, "text/event-stream", headers)
    return Raw(encoded(value), status, headers=headers)


def damaged(values: Sequence[Any], chance: random.Random, case: Raw) -> Raw:
    """Another reply: a value damaged as JSON, or the bytes of a reply as bytes."""
    status = chance.choice(STATUSES)
    if chance.random() < 0.3 and isinstance(case.body, bytes):
        return Raw(damaged_bytes(chance, case.body), status, case.kind, case.headers)
    return raw(damaged_value(chance, chance.choice(values)), status)


def is_clean(text: str) -> None:
    text.encode("utf-8")
    assert KEY not in text


def check_chat(reply: ChatReply) -> None:
    for text in (reply.text, reply.model, reply.finish, *reply.notes):
        is_clean(text)
    counts = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    assert all(type(count) is int and count >= 0 for count in counts)
    assert (reply.usage.cost or 0.0) >= 0


def check_vectors(reply: EmbedReply) -> None:
    assert reply.vectors.shape[0] == 2
    assert np.allclose(np.linalg.norm(reply.vectors, axis=1), 1.0, atol=1e-3)


def check_scores(reply: RerankReply) -> None:
    assert len(reply.scores) == 2
    assert np.isfinite(reply.scores).all()


@contextmanager
def door(asked: Any, check: Callable[[Any], None]) -> Iterator[Run]:
    """A server that sends the case, and a runner that asks it."""
    os.environ["FUZZ_KEY"] = KEY
    with ScriptedServer() as scripted, raw_server(Raw()) as server:

        def run(case: Raw) -> None:
            shown: list[str] = []
            settings: Any = {"key_env": "FUZZ_KEY", "price_in": 1.0, "price_out": 1.0}
            found = Desk(scripted, server).ask(case, asked, heard=shown.append, **settings)
            is_clean("".join(shown))
            if isinstance(found, RagwrightError):
                is_clean(str(found))
            else:
                check(found)

        yield run


def target(name: str, values: Sequence[Any], asked: Any, check: Callable[[Any], None]) -> Target:
    return Target(
        name, [raw(v) for v in values], partial(damaged, values), partial(door, asked, check)
    )


TARGETS = (
    target("chat", CHATS, question(params={"n": 1}), check_chat),
    target("stream", (*EVENTS, *CHATS), question(stream=True, params={"n": 1}), check_chat),
    target("embeddings", (*EMBEDDINGS, ERROR), REQUESTS["embed"], check_vectors),
    target("rerank", (*RERANKINGS, ERROR), REQUESTS["rerank"], check_scores),
)
