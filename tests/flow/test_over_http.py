"""The runner over real HTTP: the scripted server and the models' own handlers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_fakes import user

from ragwright.core import ModelRefusedError, ModelReplyError, ModelTimeoutError
from ragwright.flow import (
    Chat,
    ChatReply,
    Flow,
    Replies,
    RetryPolicy,
    Runner,
    RunnerOptions,
    chat,
    gather,
    send,
)
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer, ServerRequest

FAST = RetryPolicy(base=0.01, longest=0.05)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def ask(server: ScriptedServer, text: str, **options: bool) -> Flow[str]:
    return (yield from chat(f"{server.url}#scripted", user(text), **options)).text  # type: ignore[arg-type]


def test_pushback_faults_and_broken_replies_are_ridden_out(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.play(
        [
            Reply.rate_limited("0.2"),
            Reply(status=503, error="overloaded"),
            Reply(malformed="json"),
            Reply(malformed="reset"),
            "at last",
        ]
    )
    replies = Replies(tmp_path / "replies.db")
    with Runner(model_handlers(Models()), replies=replies, retry=FAST) as runner:
        assert runner.run(ask(server, "q")) == "at last"
        assert runner.progress.retries == 4
        assert runner.run(ask(server, "q")) == "at last"
    replies.close()
    assert server.count == 5


def test_a_refusal_is_not_tried_again(server: ScriptedServer) -> None:
    server.play(Reply.too_long())
    runner = Runner(model_handlers(Models()), retry=FAST)
    with runner, pytest.raises(ModelRefusedError):
        runner.run(ask(server, "q"))
    assert server.count == 1


@pytest.mark.slow
def test_many_flows_share_connections_limits_and_calls(server: ScriptedServer) -> None:
    server.play(lambda request: Reply(f"re: {request.prompt}", delay=0.1))
    with Runner(model_handlers(Models()), RunnerOptions(concurrency=10)) as runner:
        found = list(runner.map((ask(server, str(i // 2)) for i in range(200)), limit=40))
    assert found == [f"re: {i // 2}" for i in range(200)]
    assert server.max_in_flight == 10
    assert server.count == 100


def test_a_stream_reaches_the_sink_and_a_cut_one_is_an_error(
    server: ScriptedServer, tmp_path: Path
) -> None:
    replies = Replies(tmp_path / "replies.db")
    with Runner(model_handlers(Models()), replies=replies, retry=FAST) as runner:
        server.play(Reply("one two three", pace=0.01))
        heard: list[str] = []
        assert runner.run(ask(server, "q", stream=True), sink=heard.append) == "one two three"
        assert len(heard) > 1
        assert "".join(heard) == "one two three"
        server.play(Reply("one two three four", malformed="cut_stream"))
        before = server.count
        with pytest.raises(Exception, match=r"."):
            runner.run(ask(server, "other", stream=True), sink=heard.append)
        assert server.count == before + 1
        server.play("whole")
        assert runner.run(ask(server, "other")) == "whole"  # nothing of the cut one was kept
    replies.close()


def test_a_server_that_hangs_costs_its_time_limit_and_no_more(server: ScriptedServer) -> None:
    server.play(Reply(malformed="hang"))

    def hasty() -> Flow[str]:
        request = Chat(f"{server.url}#scripted", user("q"), timeout=0.1)
        return (yield from send(request, ChatReply)).text

    with Runner(model_handlers(Models()), retry=RetryPolicy(attempts=2, base=0.01)) as runner:
        with pytest.raises(ModelTimeoutError):
            runner.run(hasty())
        assert runner.progress.possibly_billed == 2
        server.play("awake")
        assert runner.run(ask(server, "q2")) == "awake"


def test_one_broken_reply_among_siblings_is_told_apart(server: ScriptedServer) -> None:
    server.play(
        lambda request: Reply(malformed="html") if request.prompt == "bad" else Reply("fine")
    )
    with Runner(model_handlers(Models()), retry=RetryPolicy(attempts=1)) as runner:
        flows = [ask(server, "a"), ask(server, "bad"), ask(server, "c")]
        first, second, third = runner.run(gather(flows, settle=True))
    assert (first, third) == ("fine", "fine")
    assert isinstance(second, ModelReplyError)


@pytest.mark.slow
@pytest.mark.parametrize("rejected", [("response_format",), ("temperature", "response_format")])
def test_a_rejected_parameter_loses_none_of_the_calls_in_flight(
    server: ScriptedServer, rejected: tuple[str, ...]
) -> None:
    def reply(request: ServerRequest) -> Reply:
        found = next((name for name in rejected if name in request.body), None)
        return Reply("fine", delay=0.02) if found is None else Reply.unsupported(found)

    def rated(number: int) -> Flow[ChatReply]:
        request = Chat(
            f"{server.url}#scripted",
            user(str(number)),
            params=(("temperature", 0.5),),
            schema='{"type": "object"}',
        )
        return (yield from send(request, ChatReply))

    server.play(reply)
    with Runner(model_handlers(Models()), RunnerOptions(concurrency=16), retry=FAST) as runner:
        ended = list(runner.outcomes((rated(i) for i in range(40)), limit=40))
    assert [outcome.state for outcome in ended] == ["done"] * 40
    assert server.max_in_flight > 1
    assert all(set(outcome.unwrap().dropped) == set(rejected) for outcome in ended)
    carried = [
        (request.prompt, next((name for name in rejected if name in request.body), None))
        for request in server.requests
    ]
    refused = [(prompt, name) for prompt, name in carried if name is not None]
    assert len(refused) == len(set(refused))  # each call learns of each parameter once
    assert all(name is None for _, name in carried[-16:])


@pytest.mark.parametrize(
    "said",
    [
        'response_format type must be one of "text" or "json_object", but got: json_schema',
        "Parameter response_format not recognized",
        "response_format is not implemented",
    ],
)
def test_rejections_of_other_servers_are_understood(server: ScriptedServer, said: str) -> None:
    server.play(
        lambda request: Reply(status=400, error=said) if "response_format" in request.body else "ok"
    )

    def rated() -> Flow[ChatReply]:
        request = Chat(f"{server.url}#scripted", user("q"), schema='{"type": "object"}')
        return (yield from send(request, ChatReply))

    with Runner(model_handlers(Models()), retry=FAST) as runner:
        assert runner.run(rated()).dropped == ("response_format",)
