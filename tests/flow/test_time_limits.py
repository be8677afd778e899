"""A server may take as long as it sends; one that is silent is given up and left alone."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flow_fakes import user
from waiting import wait_until

from ragwright.core import ModelTimeoutError, ModelUnavailableError
from ragwright.flow import Chat, ChatReply, Flow, OnDelta, RetryPolicy, Runner, RunnerOptions, chat
from ragwright.models import ChatModel, Models, TimeLimits, model_handlers
from ragwright.testing import Reply, ScriptedServer, ServerRequest

QUICK = TimeLimits(connect=0.3, first_piece=0.7, silence=0.7)
FAST = RetryPolicy(base=0.01, longest=0.05)
HANG = Reply(malformed="hang")


def runner(limits: TimeLimits = QUICK, concurrency: int = 8) -> Runner:
    models = Models(limits=limits)
    return Runner(model_handlers(models), RunnerOptions(concurrency=concurrency), retry=FAST)


def ask(url: str, text: str = "q", stream: bool = False) -> Flow[str]:
    return (yield from chat(f"{url}#scripted", user(text), stream=stream)).text


@contextmanager
def trickling(pause: float, stops_after: int = 10**9) -> Iterator[str]:
    """A server that sends its reply, no stream, in pieces of twenty bytes with pauses."""
    body = json.dumps(
        {"choices": [{"message": {"content": "slowly " * 30}, "finish_reason": "stop"}]}
    ).encode()
    gone = threading.Event()

    class Trickle(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for start in range(0, len(body), 20):
                if start >= stops_after:
                    gone.wait(20)
                    return
                self.wfile.write(body[start : start + 20])
                gone.wait(pause)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        gone.set()
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_stream_that_moves_is_not_ended_however_long_it_is() -> None:
    words = " ".join("abcdefghijklmnop")
    with ScriptedServer(Reply(words, pace=0.08)) as server, runner() as running:
        assert running.run(ask(server.url, stream=True), sink=lambda _: None) == words
        assert server.count == 1


@pytest.mark.slow
def test_a_reply_that_arrives_slowly_and_unstreamed_is_waited_for() -> None:
    with trickling(0.08) as url, runner() as running:
        assert running.run(ask(url)) == "slowly " * 30


@pytest.mark.slow
def test_a_server_that_never_begins_is_given_up_and_asked_once_more() -> None:
    with ScriptedServer(HANG) as server, runner() as running:
        with pytest.raises(ModelTimeoutError, match="first_piece_timeout"):
            running.run(ask(server.url))
        assert server.count == 2
        wait_until(lambda: server.in_flight == 0)
        assert running.progress.possibly_billed == 2


@pytest.mark.slow
def test_a_stream_that_stops_is_given_up_by_the_limit_of_silence() -> None:
    with ScriptedServer(Reply("one two three", pace=30)) as server, runner() as running:
        with pytest.raises(ModelTimeoutError, match="silence_timeout"):
            running.run(ask(server.url, stream=True), sink=lambda _: None)
        assert server.count == 2
        wait_until(lambda: server.in_flight == 0)


@pytest.mark.slow
def test_an_unstreamed_reply_that_stops_is_given_up_by_the_limit_of_silence() -> None:
    with (
        trickling(0.01, stops_after=100) as url,
        runner() as running,
        pytest.raises(ModelTimeoutError, match="silence_timeout"),
    ):
        running.run(ask(url))


@pytest.mark.slow
def test_what_times_out_is_asked_again_by_half_as_many_at_once() -> None:
    with ScriptedServer(HANG) as server, runner(concurrency=8) as running:
        ended = list(running.outcomes((ask(server.url, str(i)) for i in range(8)), limit=8))
        assert {type(outcome.error) for outcome in ended} == {ModelTimeoutError}
        assert server.count == 16
        assert [request.in_flight for request in server.requests[:8]] == list(range(1, 9))
        assert max(request.in_flight for request in server.requests[8:]) <= 4
        wait_until(lambda: server.in_flight == 0)


@pytest.mark.slow
def test_one_call_that_times_out_halves_too() -> None:
    def slow_once(request: object) -> Reply:
        return HANG if server.count <= 2 else Reply("fine", delay=0.1)

    with ScriptedServer(slow_once) as server, runner(concurrency=2) as running:
        ended = list(running.outcomes((ask(server.url, str(i)) for i in range(6)), limit=6))
        assert [outcome.state for outcome in ended] == ["done"] * 6
        assert server.requests[2].in_flight == 1


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_calls_that_wait_for_earlier_ones_are_sent_once(stream: bool) -> None:
    """A server that works on one reply at a time: the last one begins long after the limit."""

    def one_at_a_time(request: ServerRequest) -> Reply:
        return Reply("fine", delay=0.4 * request.in_flight)

    with ScriptedServer(one_at_a_time) as server, runner() as running:
        flows = (ask(server.url, str(i), stream and i == 0) for i in range(5))
        ended = list(running.outcomes(flows, limit=5))
        assert [outcome.state for outcome in ended] == ["done"] * 5
        assert server.count == 5


@pytest.mark.slow
def test_a_call_that_the_server_has_lost_is_given_up_while_later_ones_are_answered() -> None:
    def lost(request: ServerRequest) -> Reply:
        return HANG if request.prompt == "0" else Reply("fine", delay=0.2)

    with ScriptedServer(lost) as server, runner(concurrency=2) as running:
        ended = list(running.outcomes((ask(server.url, str(i)) for i in range(14)), limit=14))
        assert [outcome.state for outcome in ended] == ["failed"] + ["done"] * 13
        assert sum(request.prompt == "0" for request in server.requests) == 2


def test_a_server_that_takes_no_connection_is_given_up_by_the_limit_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        address = deaf.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}/v1"
        impatient = Runner(model_handlers(Models(limits=QUICK)), retry=RetryPolicy(attempts=1))
        with impatient, pytest.raises(ModelUnavailableError, match="cannot be reached"):
            impatient.run(ask(url))
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
        running.run(said(stream), sink=lambda _: None)


def said(stream: bool) -> Flow[str]:
    return (yield from chat("own", user("q"), stream=stream)).text
