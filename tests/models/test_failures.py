"""What a server may send that is no reply, to requests of every kind; what it refuses is learnt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
from model_desk import REQUESTS, Desk, desk, question
from raw_server import Raw, chat_reply, events

from ragwright.core import (
    MissingKeyError,
    ModelRefusedError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    PromptTooLongError,
    RagwrightError,
    RateLimitedError,
)
from ragwright.flow import ChatReply, Embed, Rerank
from ragwright.testing import Reply, ScriptedServer, ServerRequest

__all__ = ["desk"]

ALL, CHATS, STREAM = tuple(REQUESTS), ("chat", "stream"), ("stream",)
NOT_OBJECTS = "choices that are not objects"
DEEP = b"[" * 100_000 + b"]" * 100_000
SLOW = {"error": {"message": "slow", "code": 429}}


def told(status: int, **body: Any) -> Reply:
    return Reply(status=status, error=body or "no")


def message(value: Any) -> Raw:
    return Raw(json.dumps({"choices": [{"message": value}]}).encode())


def at_place(value: bytes) -> Raw:
    return Raw(b'{"detail": [{"loc": %b, "msg": "no"}]}' % value, 422)


def piece(delta: bytes) -> Raw:
    return events(b'{"choices": [{"delta": %b}]}' % delta)


NO_GZIP = Raw(b"no", headers={"Content-Encoding": "gzip"})
LIMITED = Reply("a b", malformed="error_event", error=SLOW)
FAULTS: dict[str, tuple[Any, tuple[str, ...], type[RagwrightError], str]] = {
    "bad key": (Reply.bad_key(), ALL, MissingKeyError, ""),
    "forbidden": (told(403), ALL, MissingKeyError, ""),
    "unknown model": (Reply.unknown_model(), ALL, ModelRefusedError, ""),
    "too long": (Reply.too_long(), ALL, PromptTooLongError, ""),
    "bad request": (Reply(status=400, error="at most 2"), ALL, ModelRefusedError, "at most 2"),
    "unprocessable": (told(422), ALL, ModelRefusedError, ""),
    "payment": (Reply(status=402, error="Insufficient Balance"), ALL, ModelRefusedError, ""),
    "quota": (Reply.quota(), ALL, ModelRefusedError, ""),
    "timeout status": (Reply(status=408), ALL, ModelTimeoutError, ""),
    "rate limit": (Reply.rate_limited("1"), ALL, RateLimitedError, ""),
    "500": (Reply(status=500, error="oh"), ALL, ModelUnavailableError, ""),
    "502 page": (Reply(status=502, malformed="html"), ALL, ModelUnavailableError, ""),
    "503": (Reply(status=503), ALL, ModelUnavailableError, ""),
    "503 says when": (Reply(status=503, headers={"Retry-After": "2"}), ALL, RateLimitedError, ""),
    "529": (Reply(status=529, error="overloaded"), ALL, ModelUnavailableError, ""),
    "reset": (Reply(malformed="reset"), ALL, ModelUnavailableError, ""),
    "not json": (Reply(malformed="json"), ALL, ModelReplyError, ""),
    "html": (Reply(malformed="html"), ALL, ModelReplyError, ""),
    "nothing": (Reply(malformed="empty"), ALL, ModelReplyError, ""),
    "no choices": (Reply(malformed="no_choices"), ALL, ModelReplyError, ""),
    "error in 200": (Reply(malformed="error_in_200"), ALL, ModelUnavailableError, ""),
    "rate limit in 200": (Reply(malformed="error_in_200", error=SLOW), ALL, RateLimitedError, ""),
    "cut": (Reply("a b c d e f", malformed="cut_stream"), CHATS, ModelReplyError, ""),
    "ended early": (Reply("a b c", malformed="quiet_cut"), STREAM, ModelReplyError, ""),
    "error event": (Reply("a", malformed="error_event"), STREAM, ModelUnavailableError, ""),
    "rate limit event": (LIMITED, STREAM, RateLimitedError, ""),
    "hangs": (Reply(malformed="hang"), ALL, ModelTimeoutError, "0.2 s"),
    "a slow stream": (Reply("a b c d e f g h", pace=0.1), STREAM, ModelTimeoutError, "0.2 s"),
    "deep": (Raw(DEEP), ALL, ModelReplyError, "not JSON"),
    "a deep error": (Raw(b'{"error":' + DEEP + b"}", 400), ALL, ModelRefusedError, "400"),
    "a place that is null": (at_place(b"null"), ALL, ModelRefusedError, "no"),
    "a place that is a number": (at_place(b"5"), ALL, ModelRefusedError, "no"),
    "a message that is null": (message(None), CHATS, ModelReplyError, "without a message"),
    "a message that is text": (message("s"), CHATS, ModelReplyError, "without a message"),
    "not gzip": (NO_GZIP, ALL, ModelReplyError, "decompressed"),
    "5,000 digits": (Raw(b'{"a": ' + b"9" * 5000 + b"}"), ALL, ModelReplyError, "not JSON"),
    "not UTF-8": (Raw(b'{"choices": "\xff\xfe"}'), ALL, ModelReplyError, "not JSON"),
    "events of texts": (events({"choices": ["x"]}), STREAM, ModelReplyError, NOT_OBJECTS),
    "events of objects": (events({"choices": {"a": 1}}), STREAM, ModelReplyError, NOT_OBJECTS),
    "events that are lists": (events([1, 2]), STREAM, ModelReplyError, NOT_OBJECTS),
    "a piece that is text": (piece(b'"x"'), STREAM, ModelReplyError, "not an object"),
    "a deep event": (events(DEEP), STREAM, ModelReplyError, "cannot be read"),
    "an event not in UTF-8": (piece(b'"caf\xe9"'), STREAM, ModelReplyError, "cannot be read"),
}


@pytest.mark.parametrize(
    ("fault", "asked"), [(name, kind) for name, row in FAULTS.items() for kind in row[1]]
)
def test_what_is_no_reply_is_a_typed_error_of_a_server(desk: Desk, fault: str, asked: str) -> None:
    reply, _, kind, words = FAULTS[fault]
    error = desk.ask(reply, REQUESTS[asked], timeout=0.2 if words == "0.2 s" else 20.0)
    assert type(error) is kind, repr(error)
    assert words in str(error)
    server = desk.scripted if isinstance(reply, Reply) else desk.raw
    if words == "0.2 s":  # a busy machine may not even have sent the request by then
        return
    assert "#m" in error.what
    assert error.where == server.url
    if isinstance(reply, Reply) and fault != "reset":
        assert len(desk.scripted.requests) == 1, "retries are the runner's"


def test_nobody_at_the_address(desk: Desk) -> None:
    with ScriptedServer() as gone:
        pass
    error = Desk(gone, desk.raw).ask("never", question())
    assert isinstance(error, ModelUnavailableError)
    assert gone.url in str(error)


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": "0.5"}, 0.5, 0.5),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"Retry-After": formatdate(time.time() + 86_400, usegmt=True)}, 3_600, 86_400),
        ({"Retry-After": formatdate(time.time() - 60, usegmt=True)}, 0, 0),
        ({}, None, None),
        *(({"Retry-After": word}, None, None) for word in ("soon", "nan", "inf")),
    ],
    ids=["7", "half", "ms", "a date to come", "a date gone by", "none", "soon", "nan", "inf"],
)
def test_a_wait_is_read(
    desk: Desk, headers: dict[str, str], low: float | None, high: float | None
) -> None:
    error = desk.ask(Reply(status=429, error="slow down", headers=headers), question())
    assert isinstance(error, RateLimitedError)
    if low is None or high is None:
        assert error.retry_after is None
    else:
        assert error.retry_after is not None
        assert low <= error.retry_after <= high


# -- parameters that a server rejects ------------------------------------------------------


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": text, **more}}


EXTRA = [{"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "not permitted"}]
REJECTIONS: dict[str, tuple[int, Any]] = {
    "openai": (400, Reply.unsupported("temperature").error),
    "openai value": (
        400,
        said(
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            param="temperature",
            code="unsupported_value",
        ),
    ),
    "openai unknown": (
        400,
        said("Unrecognized request argument supplied: temperature", param=None, code=None),
    ),
    "fastapi": (422, {"detail": EXTRA}),
    "fastapi inside message": (422, {"object": "error", "message": {"detail": EXTRA}}),
    "plain": (400, {"message": "unknown field: parameter 'temperature' is not a valid field"}),
    "google": (
        400,
        [said('Invalid JSON payload received. Unknown name "temperature": Cannot find field.')],
    ),
    "groq": (400, said("property 'temperature' is unsupported")),
    "databricks": (400, {"error_code": "BAD_REQUEST", "message": "temperature: unexpected field"}),
    "one of": (400, said('temperature must be one of "0" or "1", but got: 0.2')),
    "not recognized": (400, said("Parameter temperature not recognized")),
    "not implemented": (400, said("temperature is not implemented")),
}


@pytest.mark.parametrize("server", REJECTIONS)
def test_a_rejected_parameter_is_dropped_once_and_remembered(desk: Desk, server: str) -> None:
    status, error = REJECTIONS[server]

    def picky(request: ServerRequest) -> Reply:
        return Reply(status=status, error=error) if "temperature" in request.body else Reply("ok")

    request = question(params={"temperature": 0.2, "seed": 4})
    first, second = desk.ask(picky, request, request)
    assert first.dropped == second.dropped == ("temperature",)
    assert len(desk.scripted.requests) == 3
    assert all(r.body["seed"] == 4 for r in desk.scripted.requests)


NEITHER = ("max_tokens", "max_completion_tokens")


@pytest.mark.parametrize(
    ("refused", "params", "dropped"),
    [
        (("seed", "response_format", "top_p"), {"seed": 1, "top_p": 0.5}, None),
        (NEITHER[:1], {"max_tokens": 50}, ("max_tokens->max_completion_tokens",)),
        (NEITHER, {"max_tokens": 50}, ModelRefusedError),
    ],
    ids=["several fall one by one", "the token limit is renamed", "and never dropped"],
)
def test_of_what_is_refused_the_token_limit_alone_stays(
    desk: Desk, refused: tuple[str, ...], params: dict[str, Any], dropped: Any
) -> None:
    def strict(request: ServerRequest) -> Reply:
        found = next((name for name in refused if name in request.body), None)
        return Reply.unsupported(found, "Use 'max_completion_tokens'.") if found else Reply("ok")

    schema = "" if dropped else '{"type": "object"}'
    reply = desk.ask(strict, question(params=params, schema=schema))
    if dropped is ModelRefusedError:
        assert isinstance(reply, ModelRefusedError)
        return
    assert sorted(reply.dropped) == sorted(dropped or refused)
    if dropped:
        assert desk.scripted.requests[-1].body["max_completion_tokens"] == 50


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Invalid 'temperature': above maximum", {"param": "temperature", "code": "above_max"}),
        ("max_tokens is too large for the context window, which is not allowed", {}),
        ("Unexpected role: the user must stop before the assistant", {}),
        ("The model does not exist, unknown name", {"code": "model_not_found"}),
    ],
)
def test_a_refusal_that_names_parameters_may_drop_none(
    desk: Desk, text: str, more: dict[str, str]
) -> None:
    params = {"max_tokens": 5, "stop": "x", "user": "u", "temperature": 9.0}
    error = desk.ask(Reply(status=400, error=said(text, **more)), question(params=params))
    assert isinstance(error, ModelRefusedError)
    assert text[:20] in str(error)
    assert len(desk.scripted.requests) == 1


# -- what else is learnt -------------------------------------------------------------------


def refusal(status: int, text: str) -> Raw:
    return Raw(json.dumps(said(text)).encode(), status)


def vectors(texts: list[str]) -> Raw:
    data = [{"index": at, "embedding": [1.0, len(t), at]} for at, t in enumerate(texts)]
    return Raw(json.dumps({"data": data}).encode())


def embeds(count: int) -> list[Embed]:
    texts = tuple("x" * n for n in range(1, count + 1))
    return [Embed("", texts, role) for role in ("passage", "query")]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (422, "batch size 60 > maximum allowed batch size 16"),
        (400, "Value error, batch size is invalid, it should not be larger than 16."),
        (400, "too many inputs"),
        (400, "array too long. Expected an array with maximum length 16"),
        (413, "The number of documents exceeds the limit of 16"),
    ],
)
def test_a_batch_size_is_learnt(desk: Desk, status: int, text: str) -> None:
    def script(_: str, body: Any) -> Raw:
        texts = body["input"]
        return refusal(status, text) if len(texts) > 16 else vectors(texts)

    for reply in desk.ask(script, *embeds(60)):
        directions = reply.vectors[:, 1] / reply.vectors[:, 0]
        assert directions.tolist() == pytest.approx(range(1, 61), rel=1e-5)
    sizes = [len(body["input"]) for body in desk.raw.bodies]
    assert sum(size > 16 for size in sizes) <= 2
    assert len(sizes) <= 11


def test_one_long_text_shrinks_no_batch_and_an_input_type_is_asked_for(desk: Desk) -> None:
    def refused(status: int, text: str) -> RagwrightError:
        (found, _) = desk.ask(lambda path, body: refusal(status, text), *embeds(3))
        assert isinstance(found, RagwrightError)
        return found

    long = refused(500, "input is too large to process. increase the physical batch size")
    assert isinstance(long, PromptTooLongError)
    assert "physical batch" in long.what
    assert "context_window" in str(long.hint)
    required = refused(400, "'input_type' parameter is required")
    assert isinstance(required, ModelRefusedError)
    assert "query_params and passage_params" in str(required.hint)
    own: Any = {f"{role}_params": {"input_type": role[0]} for role in ("query", "passage")}
    desk.ask(lambda path, body: vectors(body["input"]), *embeds(2), **own)
    assert [body["input_type"] for body in desk.raw.bodies] == ["p", "q"]


@pytest.mark.parametrize(
    "text",
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
def test_a_refused_system_turn_goes_into_the_question(desk: Desk, text: str, status: int) -> None:
    def script(_: str, body: Any) -> Raw:
        has_system = any(turn["role"] == "system" for turn in body["messages"])
        return refusal(status, text) if has_system else Raw(chat_reply("So."))

    replies: list[ChatReply] = desk.ask(script, question("Why?"), question("Why?"))
    bodies = desk.raw.bodies
    assert [len(body["messages"]) for body in bodies] == [2, 1, 1]
    assert bodies[-1]["messages"] == [{"role": "user", "content": "Be brief.\n\nWhy?"}]
    assert all("system turn" in reply.dropped[0] for reply in replies)


def test_too_large_max_tokens_names_its_setting(desk: Desk) -> None:
    text = "'max_tokens' is too large: 2048. This model's maximum context length is 2048 tokens"
    error = desk.ask(refusal(400, text), question())
    assert isinstance(error, PromptTooLongError)
    assert "answer.max_tokens" in str(error.hint)


def scored(body: Any, key: str, field: str = "documents") -> list[dict[str, Any]]:
    texts = body[field]
    return [{"index": at, key: float(text.split()[1])} for at, text in enumerate(texts)][::-1]


RERANKERS: dict[str, Callable[[Any], Any]] = {
    "cohere": lambda body: {"results": scored(body, "relevance_score")},
    "jina": lambda body: {"results": scored(body, "score"), "usage": {}},
    "voyage": lambda body: (
        {"object": "list", "data": scored(body, "relevance_score")}
        if "top_n" not in body
        else refusal(400, "Argument 'top_n' is not supported by our API")
    ),
    "tei": lambda body: (
        scored(body, "score", "texts")
        if "texts" in body
        else refusal(422, "Failed to deserialize the JSON body: missing field `texts` at line 1")
    ),
    "few": lambda body: (
        {"results": scored(body, "relevance_score")}
        if len(body["documents"]) <= 8
        else refusal(422, "batch size 12 > maximum allowed batch size 8")
    ),
}


@pytest.mark.parametrize("shape", RERANKERS)
def test_rerankers_of_every_shape_give_each_passage_its_score(desk: Desk, shape: str) -> None:
    def script(_: str, body: Any) -> Raw:
        reply = RERANKERS[shape](body)
        return reply if isinstance(reply, Raw) else Raw(json.dumps(reply).encode())

    passages = tuple(f"passage {number}" for number in range(12))
    for reply in desk.ask(script, *(Rerank("", query, passages) for query in "ab")):
        assert reply.scores == tuple(map(float, range(12)))
    assert len(desk.raw.bodies) <= 5
