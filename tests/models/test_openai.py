"""The OpenAI-compatible client against a scripted server: every reply, every fault."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from email.utils import formatdate
from typing import Any, TypeVar

import pytest
from waiting import wait_until

from ragwright.core import (
    MissingKeyError,
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    PromptTooLongError,
    RateLimitedError,
)
from ragwright.flow import Chat, ChatReply, Complete, Message
from ragwright.models import ChatModel, Models, ModelSettings, OpenAIChat
from ragwright.testing import ChatModelSuite, Reply, ScriptedServer, ServerRequest

T = TypeVar("T")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def run_with(
    server: ScriptedServer,
    work: Callable[[OpenAIChat], Coroutine[Any, Any, T]],
    settings: ModelSettings | None = None,
) -> T:
    name = f"{server.url}#m"

    async def main() -> T:
        chat = OpenAIChat(Models({name: settings or ModelSettings()}).target(name))
        try:
            return await work(chat)
        finally:
            await chat.aclose()

    return asyncio.run(main())


def question(text: str = "What is it?", **more: Any) -> Chat:
    params = tuple(sorted(more.pop("params", {}).items()))
    return Chat("m", (Message("system", "Be brief."), Message("user", text)), params, **more)


def ask(server: ScriptedServer, request: Chat | None = None, **settings: Any) -> ChatReply:
    request = request or question()
    return run_with(server, lambda chat: chat.chat(request), ModelSettings(**settings))


class TestConforms(ChatModelSuite):
    @pytest.fixture(autouse=True)
    def _serve(self, server: ScriptedServer) -> None:
        self._name = f"{server.url}#m"

    def make(self) -> ChatModel:
        return OpenAIChat(Models().target(self._name))


def test_a_reply_carries_text_usage_finish_and_model(server: ScriptedServer) -> None:
    server.play(Reply("It is a car.", usage=(7, 4), finish="length"))
    reply = ask(server)
    assert reply.text == "It is a car."
    assert (reply.usage.calls, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        1,
        7,
        4,
    )
    assert reply.finish == "length"
    assert reply.model == "m"
    assert reply.dropped == ()


def test_the_server_sees_messages_and_parameters(server: ScriptedServer) -> None:
    ask(server, question(params={"temperature": 0.0, "stop": ("END", "STOP")}), params={"seed": 3})
    (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is it?"},
    ]
    assert seen.body["temperature"] == 0.0
    assert seen.body["stop"] == ["END", "STOP"]
    assert seen.body["seed"] == 3


def test_a_request_wins_over_the_settings(server: ScriptedServer) -> None:
    ask(server, question(params={"seed": 9}), params={"seed": 3})
    assert server.requests[0].body["seed"] == 9


def test_usage_is_estimated_where_the_server_sends_none(server: ScriptedServer) -> None:
    server.play(Reply("x" * 40, usage=None))
    reply = ask(server, question("y" * 400))
    assert 90 <= reply.usage.prompt_tokens <= 120
    assert reply.usage.completion_tokens == 10


def test_empty_and_null_content_are_the_empty_text(server: ScriptedServer) -> None:
    server.play([Reply(""), Reply(malformed="null_content")])
    assert ask(server).text == ""
    assert ask(server).text == ""


@pytest.mark.parametrize("content", [[{"type": "thinking", "thinking": "…"}, {"text": "yes"}]])
def test_content_in_parts_is_joined(content: list[dict[str, str]], server: ScriptedServer) -> None:
    server.play(Reply(content))  # type: ignore[arg-type]
    assert ask(server, question()).text == "yes"


FAULTS: list[tuple[str, Reply, type[ModelError]]] = [
    ("bad key", Reply.bad_key(), MissingKeyError),
    ("forbidden", Reply(status=403, error="not yours"), MissingKeyError),
    ("unknown model", Reply.unknown_model(), ModelRefusedError),
    ("too long", Reply.too_long(), PromptTooLongError),
    ("bad request", Reply(status=400, error="temperature must be at most 2"), ModelRefusedError),
    ("unprocessable", Reply(status=422, error="no"), ModelRefusedError),
    ("payment", Reply(status=402, error="Insufficient Balance"), ModelRefusedError),
    ("quota", Reply.quota(), ModelRefusedError),
    ("timeout status", Reply(status=408), ModelTimeoutError),
    ("rate limit", Reply.rate_limited(), RateLimitedError),
    ("500", Reply(status=500, error="oh"), ModelUnavailableError),
    ("502 page", Reply(status=502, malformed="html"), ModelUnavailableError),
    ("503", Reply(status=503), ModelUnavailableError),
    ("503 says when", Reply(status=503, headers={"Retry-After": "2"}), RateLimitedError),
    ("529", Reply(status=529, error="overloaded"), ModelUnavailableError),
    ("reset", Reply(malformed="reset"), ModelUnavailableError),
    ("not json", Reply(malformed="json"), ModelReplyError),
    ("html", Reply(malformed="html"), ModelReplyError),
    ("nothing", Reply(malformed="empty"), ModelReplyError),
    ("no choices", Reply(malformed="no_choices"), ModelReplyError),
    ("cut body", Reply("a b c d", malformed="cut_stream"), ModelReplyError),
    ("error in 200", Reply(malformed="error_in_200"), ModelUnavailableError),
    (
        "rate limit in 200",
        Reply(malformed="error_in_200", error={"error": {"message": "slow", "code": 429}}),
        RateLimitedError,
    ),
]


@pytest.mark.parametrize(("reply", "kind"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_is_typed_and_told(
    reply: Reply, kind: type[ModelError], server: ScriptedServer
) -> None:
    server.play(reply)
    with pytest.raises(ModelError) as caught:
        ask(server, question(params={"temperature": 0.5}))
    assert type(caught.value) is kind
    assert len(server.requests) == 1, "retries are the runner's"
    assert "#m" in caught.value.what
    assert caught.value.where == server.url


STREAM_FAULTS = [
    ("cut", Reply("a b c d e f", malformed="cut_stream"), ModelReplyError),
    ("ended early", Reply("a b c d e f", malformed="quiet_cut"), ModelReplyError),
    ("rate limit", Reply.rate_limited("1"), RateLimitedError),
    ("500", Reply(status=500), ModelUnavailableError),
    ("reset", Reply(malformed="reset"), ModelUnavailableError),
    ("error event", Reply("a b c", malformed="error_event"), ModelUnavailableError),
    (
        "rate limit event",
        Reply("a b", malformed="error_event", error={"error": {"message": "slow", "code": 429}}),
        RateLimitedError,
    ),
]


@pytest.mark.parametrize(
    ("reply", "kind"), [f[1:] for f in STREAM_FAULTS], ids=[f[0] for f in STREAM_FAULTS]
)
def test_a_fault_in_a_stream_is_typed(
    reply: Reply, kind: type[ModelError], server: ScriptedServer
) -> None:
    server.play(reply)
    deltas: list[str] = []
    with pytest.raises(ModelError) as caught:
        run_with(server, lambda chat: chat.chat(question(), deltas.append))
    assert type(caught.value) is kind


def test_a_stream_hands_on_pieces_and_counts_tokens(server: ScriptedServer) -> None:
    server.play(Reply("It is a red car.", usage=(11, 5)))
    deltas: list[str] = []
    reply = run_with(server, lambda chat: chat.chat(question(), deltas.append))
    assert "".join(deltas) == reply.text == "It is a red car."
    assert len(deltas) > 1
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (11, 5)
    assert reply.finish == "stop"


def test_a_server_without_stream_options_streams_all_the_same(server: ScriptedServer) -> None:
    server.play(
        lambda r: (
            Reply.unsupported("stream_options") if "stream_options" in r.body else Reply("one two")
        )
    )
    deltas: list[str] = []
    reply = run_with(server, lambda chat: chat.chat(question("x" * 80), deltas.append))
    assert reply.text == "".join(deltas) == "one two"
    assert reply.dropped == (), "it is ours, not the caller's"
    assert reply.usage.prompt_tokens >= 20


def test_a_server_that_does_not_stream_still_answers(server: ScriptedServer) -> None:
    def whole(request: ServerRequest) -> Reply:
        request.body["stream"] = False
        return Reply("at once")

    server.play(whole)
    deltas: list[str] = []
    reply = run_with(server, lambda chat: chat.chat(question(), deltas.append))
    assert deltas == ["at once"]
    assert reply.text == "at once"


def test_a_slow_server_runs_into_the_time_limit(server: ScriptedServer) -> None:
    server.play(Reply(malformed="hang"))
    with pytest.raises(ModelTimeoutError, match=r"0\.2 s"):
        ask(server, question(timeout=0.2))
    with pytest.raises(ModelTimeoutError):
        ask(server, timeout=0.2)


def test_a_slow_stream_runs_into_the_time_limit(server: ScriptedServer) -> None:
    server.play(Reply("a b c d e f g h", pace=0.1))
    with pytest.raises(ModelTimeoutError):
        run_with(server, lambda chat: chat.chat(question(timeout=0.3), lambda _: None))


def test_nobody_at_the_address() -> None:
    with ScriptedServer() as gone:
        pass
    with pytest.raises(ModelUnavailableError) as caught:
        ask(gone)
    assert gone.url in str(caught.value)


@pytest.mark.parametrize(
    ("header", "value", "low", "high"),
    [
        ("Retry-After", "7", 7, 7),
        ("Retry-After", "0.5", 0.5, 0.5),
        ("retry-after-ms", "250", 0.25, 0.25),
        ("Retry-After", formatdate(time.time() + 86_400, usegmt=True), 3_600, 86_400),
        ("Retry-After", formatdate(time.time() - 60, usegmt=True), 0, 0),
    ],
    ids=["seconds", "part of a second", "milliseconds", "a date to come", "a date gone by"],
)
def test_the_waiting_time_is_read(
    header: str, value: str, low: float, high: float, server: ScriptedServer
) -> None:
    server.play(Reply.rate_limited(value, header))
    with pytest.raises(RateLimitedError) as caught:
        ask(server)
    assert caught.value.retry_after is not None
    assert low <= caught.value.retry_after <= high


@pytest.mark.parametrize("value", [None, "soon", "nan", "inf"])
def test_no_readable_waiting_time_is_none(value: str | None, server: ScriptedServer) -> None:
    server.play(Reply.rate_limited(value))
    with pytest.raises(RateLimitedError) as caught:
        ask(server)
    assert caught.value.retry_after is None


REJECTIONS: list[tuple[str, int, Any]] = [
    (
        "openai",
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'temperature' is not supported with this model.",
                "type": "invalid_request_error",
                "param": "temperature",
                "code": "unsupported_parameter",
            }
        },
    ),
    (
        "openai value",
        400,
        {
            "error": {
                "message": "Unsupported value: 'temperature' does not support 0.2 with this model.",
                "param": "temperature",
                "code": "unsupported_value",
            }
        },
    ),
    (
        "openai unknown",
        400,
        {
            "error": {
                "message": "Unrecognized request argument supplied: temperature",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        },
    ),
    (
        "fastapi",
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "temperature"],
                    "msg": "Extra inputs are not permitted",
                    "input": 0.2,
                }
            ]
        },
    ),
    (
        "fastapi inside message",
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "temperature"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        },
    ),
    ("plain", 400, {"message": "unknown field: parameter 'temperature' is not a valid field"}),
    (
        "google",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": 'Invalid JSON payload received. Unknown name "temperature": '
                    "Cannot find field.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    ("groq", 400, {"error": {"message": "property 'temperature' is unsupported"}}),
    ("databricks", 400, {"error_code": "BAD_REQUEST", "message": "temperature: unexpected field"}),
]


@pytest.mark.parametrize(
    ("status", "error"), [r[1:] for r in REJECTIONS], ids=[r[0] for r in REJECTIONS]
)
def test_a_rejected_parameter_is_dropped_once_and_remembered(
    status: int, error: Any, server: ScriptedServer
) -> None:
    def picky(request: ServerRequest) -> Reply:
        return Reply(status=status, error=error) if "temperature" in request.body else Reply("ok")

    server.play(picky)
    request = question(params={"temperature": 0.2, "seed": 4})

    async def twice(chat: OpenAIChat) -> list[ChatReply]:
        return [await chat.chat(request), await chat.chat(request)]

    first, second = run_with(server, twice)
    assert first.dropped == second.dropped == ("temperature",)
    assert len(server.requests) == 3
    assert all(r.body["seed"] == 4 for r in server.requests)


def test_a_bad_value_of_a_known_parameter_is_no_reason_to_drop_it(server: ScriptedServer) -> None:
    server.play(
        Reply(
            status=400,
            error={
                "error": {
                    "message": "Invalid 'temperature': decimal above maximum value. Expected 2.",
                    "param": "temperature",
                    "code": "decimal_above_max_value",
                }
            },
        )
    )
    with pytest.raises(ModelRefusedError, match="above maximum"):
        ask(server, question(params={"temperature": 9.0}))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("max_tokens is too large for the context window, which is not allowed", None),
        ("Unexpected role: the user must stop before the assistant", None),
        ("The model does not exist, unknown name", "model_not_found"),
    ],
)
def test_a_refusal_that_only_mentions_a_parameter_drops_nothing(
    message: str, code: str | None, server: ScriptedServer
) -> None:
    server.play(Reply(status=400, error={"error": {"message": message, "code": code}}))
    with pytest.raises(ModelRefusedError):
        ask(server, question(params={"max_tokens": 5, "stop": "x", "user": "u"}))
    assert len(server.requests) == 1


def test_the_token_limit_is_renamed_and_never_dropped(server: ScriptedServer) -> None:
    def modern(request: ServerRequest) -> Reply:
        if "max_tokens" in request.body:
            return Reply.unsupported("max_tokens", "Use 'max_completion_tokens' instead.")
        return Reply("ok")

    server.play(modern)
    reply = ask(server, question(params={"max_tokens": 50}))
    assert reply.dropped == ("max_tokens->max_completion_tokens",)
    assert server.requests[-1].body["max_completion_tokens"] == 50

    def neither(request: ServerRequest) -> Reply:
        for name in ("max_tokens", "max_completion_tokens"):
            if name in request.body:
                return Reply.unsupported(name)
        return Reply("ok")

    server.play(neither)
    with pytest.raises(ModelRefusedError):
        ask(server, question(params={"max_tokens": 50}))


def test_several_rejected_parameters_fall_one_by_one(server: ScriptedServer) -> None:
    def strict(request: ServerRequest) -> Reply:
        for name in ("seed", "response_format", "top_p"):
            if name in request.body:
                return Reply.unsupported(name)
        return Reply("ok")

    server.play(strict)
    reply = ask(server, question(params={"seed": 1, "top_p": 0.5}, schema='{"type": "object"}'))
    assert sorted(reply.dropped) == ["response_format", "seed", "top_p"]


def test_a_schema_is_sent_as_response_format(server: ScriptedServer) -> None:
    closed = '{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}'
    ask(server, question(schema=closed))
    ask(server, question(schema='{"title": "My reply", "type": "object"}'))
    first, second = (r.body["response_format"]["json_schema"] for r in server.requests)
    assert first["strict"] is second["strict"] is True
    assert second["name"] == "My_reply"


def test_a_completion_carries_log_probabilities(server: ScriptedServer) -> None:
    server.play(Reply("on the mat", usage=(3, 3)))
    request = Complete("m", "The cat sat", (("echo", True), ("max_tokens", 1)), logprobs=1)
    reply = run_with(server, lambda chat: chat.complete(request))
    assert reply.text == "The cat saton the mat"
    assert [token for token, _ in reply.tokens] == [" cat", " saton", " the", " mat"]
    assert all(score <= 0 for _, score in reply.tokens)
    assert server.requests[0].path == "/v1/completions"


def test_the_key_goes_in_the_header_and_never_in_a_message(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret-123")
    server.play([Reply("ok"), Reply(status=401, error="bad key sk-secret-123 given")])
    ask(server, key_env="MY_KEY")
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret-123"
    with pytest.raises(MissingKeyError, match="MY_KEY") as caught:
        ask(server, key_env="MY_KEY")
    assert "sk-secret" not in str(caught.value)


def test_accounts_of_openai_are_not_told_to_other_servers(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    ask(server)
    told = " ".join(server.requests[0].headers.values())
    assert "sk-" not in told
    assert "org-mine" not in told
    assert "proj-mine" not in told


def test_half_a_surrogate_pair_is_refused_with_a_reason(server: ScriptedServer) -> None:
    with pytest.raises(ModelRefusedError, match="surrogate"):
        ask(server, question("broken \ud83d text"))


@pytest.mark.slow
def test_many_calls_run_side_by_side(server: ScriptedServer) -> None:
    """No reply is sent before half of the calls are open."""
    gate = threading.Event()

    def held(request: ServerRequest) -> Reply:
        if request.in_flight == 100:
            gate.set()
        return Reply("ok", held=gate)

    server.play(held)

    async def many(chat: OpenAIChat) -> list[ChatReply]:
        return await asyncio.gather(*(chat.chat(question(str(i))) for i in range(200)))

    assert len(run_with(server, many)) == 200


def test_a_proxy_is_used_for_the_world_and_not_for_this_machine(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    server.play("through the proxy")
    outside = "http://models.example.invalid/v1#m"

    async def main() -> str:
        chat = OpenAIChat(Models().target(outside))
        try:
            return (await chat.chat(question())).text
        finally:
            await chat.aclose()

    assert asyncio.run(main()) == "through the proxy"
    with ScriptedServer("at home") as near:
        assert ask(near).text == "at home"


def test_a_cancelled_call_leaves_the_others_alone(server: ScriptedServer) -> None:
    server.play(lambda r: Reply("ok", delay=600 if r.prompt == "slow" else 0.0))

    async def both(chat: OpenAIChat) -> ChatReply:
        slow = asyncio.create_task(chat.chat(question("slow")))
        while not server.count:
            await asyncio.sleep(0.005)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        return await chat.chat(question("quick"))

    assert run_with(server, both).text == "ok"
    wait_until(lambda: server.in_flight == 0)
