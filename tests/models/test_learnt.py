"""What a server refuses is learnt once: batch sizes, a system turn, the shape of a reranker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from raw_server import Raw, RawServer, chat_reply, raw_server

from ragwright.core import ModelRefusedError, PromptTooLongError
from ragwright.flow import Chat, ChatReply, Message
from ragwright.models import (
    Connections,
    Models,
    ModelSettings,
    OpenAIChat,
    OpenAIEmbeddings,
    ServerReranker,
)


def refused(status: int, message: str) -> Raw:
    return Raw(json.dumps({"error": {"message": message}}).encode(), status)


def vectors(texts: list[str]) -> Raw:
    data = [{"index": at, "embedding": [1.0, len(t), at]} for at, t in enumerate(texts)]
    return Raw(json.dumps({"data": data}).encode())


def embedded(
    script: Callable[[Any], Raw], count: int, settings: ModelSettings | None = None
) -> RawServer:
    """The server after ``count`` texts were embedded, twice."""

    async def main(url: str) -> None:
        name, connections = f"{url}#m", Connections()
        target = Models({name: settings or ModelSettings()}).target(name)
        model = OpenAIEmbeddings(target, connections)
        try:
            for role in ("passage", "query"):
                texts = [f"{role} {'x' * n}" for n in range(count)]
                found, _ = await model.embed(texts, role=role)
                assert list(found[:, 1]) == [len(text) for text in texts]
        finally:
            await connections.aclose()

    with raw_server(lambda _, body: script(body)) as server:
        asyncio.run(main(server.url))
    return server


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, "batch size 60 > maximum allowed batch size 16"),
        (400, "Value error, batch size is invalid, it should not be larger than 16."),
        (400, "too many inputs"),
        (400, "array too long. Expected an array with maximum length 16"),
        (413, "The number of documents exceeds the limit of 16"),
    ],
)
def test_a_batch_size_is_learnt(status: int, message: str) -> None:
    def script(body: Any) -> Raw:
        texts = body["input"]
        return refused(status, message) if len(texts) > 16 else vectors(texts)

    server = embedded(script, 60)
    too_many = [body for body in server.bodies if len(body["input"]) > 16]
    assert len(too_many) <= 2
    assert len(server.bodies) <= 11


def test_one_long_text_does_not_shrink_the_batches() -> None:
    message = "input is too large to process. increase the physical batch size"
    with pytest.raises(PromptTooLongError, match="physical batch") as caught:
        embedded(lambda _: refused(500, message), 3)
    assert "context_window" in str(caught.value.hint)


def test_queries_and_passages_carry_their_own_parameters() -> None:
    settings = ModelSettings(
        query_params={"input_type": "query"}, passage_params={"input_type": "passage"}
    )
    server = embedded(lambda body: vectors(body["input"]), 2, settings)
    assert [body["input_type"] for body in server.bodies] == ["passage", "query"]
    with pytest.raises(ModelRefusedError) as caught:
        embedded(lambda _: refused(400, "'input_type' parameter is required"), 2)
    assert "query_params and passage_params" in str(caught.value.hint)


SYSTEM = "Answer briefly."


def chatted(script: Callable[[Any], Raw]) -> tuple[list[ChatReply], list[Any]]:
    turns = (Message("system", SYSTEM), Message("user", "Why?"))

    async def main(url: str) -> list[ChatReply]:
        chat = OpenAIChat(Models().target(f"{url}#m"))
        try:
            return [await chat.chat(Chat("m", turns)) for _ in range(2)]
        finally:
            await chat.aclose()

    with raw_server(lambda _, body: script(body)) as server:
        return asyncio.run(main(server.url)), server.bodies


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Developer instruction is not enabled for models/gemma-3",
        "Only user and assistant roles are supported!",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "system messages are not allowed for this model",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_refused_system_turn_is_put_before_the_question(message: str, status: int) -> None:
    def script(body: Any) -> Raw:
        has_system = any(turn["role"] == "system" for turn in body["messages"])
        return refused(status, message) if has_system else Raw(chat_reply("So."))

    replies, bodies = chatted(script)
    assert [len(body["messages"]) for body in bodies] == [2, 1, 1]
    assert bodies[-1]["messages"] == [{"role": "user", "content": f"{SYSTEM}\n\nWhy?"}]
    assert all("system turn" in reply.dropped[0] for reply in replies)


def test_too_large_max_tokens_names_its_setting() -> None:
    message = "'max_tokens' is too large: 2048. This model's maximum context length is 2048 tokens"
    with pytest.raises(PromptTooLongError) as caught:
        chatted(lambda _: refused(400, message))
    assert "answer.max_tokens" in str(caught.value.hint)


PASSAGES = [f"passage {number}" for number in range(12)]


def scored(body: Any, key: str, field: str) -> list[dict[str, Any]]:
    texts = body[field]
    return [{"index": at, key: float(text.split()[1])} for at, text in enumerate(texts)][::-1]


RERANKERS: dict[str, Callable[[Any], Any]] = {
    "cohere": lambda body: {"results": scored(body, "relevance_score", "documents")},
    "jina": lambda body: {"results": scored(body, "score", "documents"), "usage": {}},
    "voyage": lambda body: (
        {"object": "list", "data": scored(body, "relevance_score", "documents")}
        if "top_n" not in body
        else refused(400, "Argument 'top_n' is not supported by our API")
    ),
    "tei": lambda body: (
        scored(body, "score", "texts")
        if "texts" in body
        else refused(422, "Failed to deserialize the JSON body: missing field `texts` at line 1")
    ),
    "few": lambda body: (
        {"results": scored(body, "relevance_score", "documents")}
        if len(body["documents"]) <= 8
        else refused(422, "batch size 12 > maximum allowed batch size 8")
    ),
}


@pytest.mark.parametrize("shape", RERANKERS)
def test_rerankers_of_every_shape_give_each_passage_its_score(shape: str) -> None:
    def script(_: str, body: Any) -> Raw:
        reply = RERANKERS[shape](body)
        return reply if isinstance(reply, Raw) else Raw(json.dumps(reply).encode())

    async def main(url: str) -> None:
        connections = Connections()
        reranker = ServerReranker(Models().target(f"{url}#m"), connections)
        try:
            for _ in range(2):
                scores, _ = await reranker.score("q", PASSAGES)
                assert scores == tuple(map(float, range(12)))
        finally:
            await connections.aclose()

    with raw_server(script) as server:
        asyncio.run(main(server.url))
    assert len(server.bodies) <= 5
