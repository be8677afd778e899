"""The runner over real HTTP: faults that pass, refusals, limits, silence, connections."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from flow_fakes import FAST, ONCE, user
from raw_server import Raw, RawServer, chat_reply, raw_server
from waiting import wait_until

from ragwright.core import ModelRefusedError, ModelTimeoutError, ModelUnavailableError
from ragwright.flow import (
    Chat,
    ChatReply,
    Flow,
    OnDelta,
    Replies,
    Runner,
    RunnerOptions,
    chat,
)
from ragwright.models import ChatModel, Models, TimeLimits, model_handlers
from ragwright.testing import Reply, ScriptedServer

pytest_plugins = ["flow_stores"]

QUICK = TimeLimits(connect=0.3, first_piece=0.7, silence=0.7)
HANG = Reply(malformed="hang")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def runner(limits: TimeLimits = TimeLimits(), **options: Any) -> Runner:  # noqa: B008
    options.setdefault("retry", FAST)
    models, many = Models(limits=limits), options.pop("concurrency", 8)
    return Runner(model_handlers(models), RunnerOptions(concurrency=many), **options)


def ask(url: str, text: str = "q", stream: bool = False) -> Flow[str]:
    return (yield from chat(f"{url}#scripted", user(text), stream=stream)).text


def test_faults_that_pass_are_ridden_out_refusals_not(
    server: ScriptedServer, replies: Replies
) -> None:
    faults = [Reply(status=503, error="overloaded"), Reply(malformed="json")]
    server.play([Reply.rate_limited("0.2"), *faults, Reply(malformed="reset"), "at last"])
    with runner(replies=replies) as running:
        assert running.run(ask(server.url)) == "at last"
        assert running.progress.retries == 4
        assert running.run(ask(server.url)) == "at last"
        assert server.count == 5
        server.play(Reply.too_long())
        with pytest.raises(ModelRefusedError):
            running.run(ask(server.url, "long"))
    assert server.count == 6


# -- time ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_moves_is_waited_for_however_long_it_takes(server: ScriptedServer) -> None:
    words = " ".join("abcdefghijklmnop")
    server.play(Reply(words, pace=0.08))
    with runner(QUICK) as running:
        assert running.run(ask(server.url, stream=True), sink=lambda _: None) == words
        assert server.count == 1
        with trickling(0.08) as slow:
            assert running.run(ask(slow.url)) == "slowly " * 30


def trickling(pause: float, stops_after: int = 10**9) -> AbstractContextManager[RawServer]:
    """A server that sends its reply, no stream, in pieces of twenty bytes with pauses."""
    body = chat_reply("slowly " * 30)
    ended = threading.Event()

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 20):
            ended.wait(pause if start < stops_after else 5)
            yield body[start : start + 20]

    return raw_server(lambda _path, _body: Raw(pieces()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "stream", "key"),
    [
        pytest.param(HANG, False, "first_piece_timeout", id="never begins"),
        pytest.param(Reply("one two three", pace=30), True, "silence_timeout", id="stops"),
        pytest.param(None, False, "silence_timeout", id="stops, not streamed"),
    ],
)
def test_a_silent_server_is_given_up_by_the_limit_of_its_silence_and_asked_once_more(
    server: ScriptedServer, reply: Reply | None, stream: bool, key: str
) -> None:
    with runner(QUICK) as running:
        if reply is None:
            with trickling(0.01, 100) as slow, pytest.raises(ModelTimeoutError, match=key):
                running.run(ask(slow.url))
            return
        server.play(reply)
        with pytest.raises(ModelTimeoutError, match=key):
            running.run(ask(server.url, stream=stream), sink=lambda _: None)
        assert server.count == 2
        assert running.progress.possibly_billed == 2
        wait_until(lambda: server.in_flight == 0)
        server.play("awake")
        assert running.run(ask(server.url, "q2")) == "awake"


@pytest.mark.slow
def test_what_times_out_is_asked_again_by_half_as_many_at_once(server: ScriptedServer) -> None:
    server.play(HANG)
    with runner(QUICK) as running:
        ended = list(running.outcomes((ask(server.url, str(i)) for i in range(8)), limit=8))
        assert {type(outcome.error) for outcome in ended} == {ModelTimeoutError}
        assert server.count == 16
        assert [request.in_flight for request in server.requests[:8]] == list(range(1, 9))
        assert max(request.in_flight for request in server.requests[8:]) <= 4
        wait_until(lambda: server.in_flight == 0)
    server.play(lambda _: HANG if server.count <= 18 else Reply("fine", delay=0.1))
    with runner(QUICK, concurrency=2) as running:  # one call that times out halves too
        ended = list(running.outcomes((ask(server.url, str(i)) for i in range(6)), limit=6))
        assert [outcome.state for outcome in ended] == ["done"] * 6
        assert server.requests[18].in_flight == 1


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_calls_that_wait_for_others_are_sent_once(server: ScriptedServer, stream: bool) -> None:
    """A server that works on one reply at a time: the last one begins long after the limit."""
    server.play(lambda request: Reply("fine", delay=0.4 * request.in_flight))
    with runner(QUICK) as running:
        flows = (ask(server.url, str(i), stream and i == 0) for i in range(5))
        ended = list(running.outcomes(flows, limit=5))
        assert [outcome.state for outcome in ended] == ["done"] * 5
        assert server.count == 5


def test_a_server_that_takes_no_connection_is_given_up_by_the_limit_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        address = deaf.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}/v1"
        refused = pytest.raises(ModelUnavailableError, match="cannot be reached")
        with runner(QUICK, retry=ONCE) as running, refused:
            running.run(ask(url))
        for one in filling:
            one.close()


class Silent(ChatModel):
    """A back end of one's own that says a word and then nothing."""

    identity = "silent"

    async def chat(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        if on_delta is not None:
            on_delta("well")
        await asyncio.sleep(60)
        return ChatReply("never")


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "key"), [(False, "first_piece"), (True, "silence")])
def test_a_back_end_of_ones_own_may_not_be_silent_for_longer(stream: bool, key: str) -> None:
    models = Models(limits=QUICK)
    models.register("own", Silent())
    running = Runner(model_handlers(models), retry=FAST)
    with running, pytest.raises(ModelTimeoutError, match=f"{key}_timeout"):
        running.run(chat("own", user("q"), stream=stream), sink=lambda _: None)
