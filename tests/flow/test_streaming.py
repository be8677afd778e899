"""Rule 6: one request of a flow may be streamed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, ask_all, user

from ragwright.core import FlowError, ModelReplyError, ModelUnavailableError
from ragwright.flow import Chat, Flow, Replies, RetryPolicy, Runner, chat, gather

FAST = RetryPolicy(base=0.001)


def stream(text: str, schema: str = "") -> Flow[str]:
    return (yield from chat("m", user(text), stream=True, schema=schema)).text


def whole(_request: Chat, _n: int) -> str:
    return "one two three"


PIECES = ("one ", "two ", "three")


def test_deltas_go_to_the_sink_and_the_reply_is_kept(tmp_path: Path) -> None:
    handler = FakeChat(whole, deltas=PIECES)
    replies = Replies(tmp_path / "replies.db")
    heard: list[str] = []
    with Runner({Chat: handler}, replies=replies) as runner:
        assert runner.run(stream("q"), sink=heard.append) == "one two three"
        assert heard == list(PIECES)
        again: list[str] = []
        assert runner.run(stream("q"), sink=again.append) == "one two three"
        assert again == ["one two three"]  # a known reply replays as one delta
    replies.close()
    assert len(handler.asked) == 1


def test_a_late_joiner_gets_the_text_so_far() -> None:
    gate = threading.Event()
    handler = FakeChat(whole, deltas=PIECES, gate=gate)
    early: list[str] = []
    late: list[str] = []

    async def scenario(runner: Runner) -> None:
        first = asyncio.ensure_future(runner.arun(stream("q"), sink=early.append))
        while len(early) < 2:
            await asyncio.sleep(0.002)
        second = asyncio.ensure_future(runner.arun(stream("q"), sink=late.append))
        while not late:
            await asyncio.sleep(0.002)
        gate.set()
        await asyncio.gather(first, second)

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
    assert early == list(PIECES)
    assert late == ["one two ", "three"]
    assert len(handler.asked) == 1


def test_a_stream_that_joins_a_call_that_does_not_stream_gets_the_text_at_the_end() -> None:
    gate = threading.Event()
    handler = FakeChat(whole, gate=gate)
    heard: list[str] = []

    async def scenario(runner: Runner) -> None:
        plain = asyncio.ensure_future(runner.arun(ask("q")))
        while not handler.asked:
            await asyncio.sleep(0.002)
        joined = asyncio.ensure_future(runner.arun(stream("q"), sink=heard.append))
        await asyncio.sleep(0.05)
        gate.set()
        await asyncio.gather(plain, joined)

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
    assert heard == ["one two three"]
    assert len(handler.asked) == 1


def test_a_cut_stream_keeps_nothing_and_is_not_tried_again(tmp_path: Path) -> None:
    handler = FakeChat(lambda r, n: ModelReplyError("cut off"), deltas=PIECES[:2])
    replies = Replies(tmp_path / "replies.db")
    heard: list[str] = []
    runner = Runner({Chat: handler}, replies=replies, retry=FAST)
    with runner, pytest.raises(ModelReplyError):
        runner.run(stream("q"), sink=heard.append)
    assert len(handler.asked) == 1  # what was shown cannot be taken back
    assert heard == list(PIECES[:2])
    assert replies.statistics() == []
    replies.close()


def test_a_stream_that_showed_nothing_is_tried_again() -> None:
    handler = FakeChat(lambda r, n: "fine" if n > 1 else ModelUnavailableError("down"))
    with Runner({Chat: handler}, retry=FAST) as runner:
        assert runner.run(stream("q"), sink=lambda _: None) == "fine"
        assert runner.run(stream("other")) == "fine"
    cut = FakeChat(lambda r, n: "fine" if n > 1 else ModelReplyError("cut"), deltas=("x",))
    with Runner({Chat: cut}, retry=FAST) as runner:
        assert runner.run(stream("no sink")) == "fine"  # nobody was shown the first half


def test_a_second_stream_in_one_flow_is_refused_before_it_costs_anything(tmp_path: Path) -> None:
    def twice() -> Flow[list[str]]:
        return [(yield from stream("a")), (yield from stream("b"))]

    handler = FakeChat(whole, deltas=PIECES)
    replies = Replies(tmp_path / "replies.db")
    heard: list[str] = []
    with Runner({Chat: handler}, replies=replies) as runner:
        with pytest.raises(FlowError, match="second"):
            runner.run(twice(), sink=heard.append)
        assert handler.asked == ["a"]
        with pytest.raises(FlowError, match="second"):  # known replies make no exception
            runner.run(twice(), sink=heard.append)
        with pytest.raises(FlowError, match="second"):
            runner.run(gather([stream("a"), stream("a")], settle=False), sink=heard.append)
        assert runner.run(twice()) == ["one two three"] * 2  # without a sink nothing is shown
    replies.close()


def test_a_reply_still_to_be_validated_does_not_stream() -> None:
    handler = FakeChat(whole, deltas=PIECES)
    heard: list[str] = []
    with Runner({Chat: handler}) as runner:
        assert runner.run(stream("q", schema="{}"), sink=heard.append) == "one two three"
    assert heard == []


def test_a_sink_that_fails_fails_its_own_flow_alone() -> None:
    gate = threading.Event()
    handler = FakeChat(whole, deltas=PIECES, gate=gate)
    heard: list[str] = []

    def broken(_piece: str) -> None:
        raise ConnectionResetError("the reader has gone")

    async def scenario(runner: Runner) -> None:
        first = asyncio.ensure_future(runner.arun(stream("q"), sink=broken))
        while not handler.asked:
            await asyncio.sleep(0.002)
        second = asyncio.ensure_future(runner.arun(stream("q"), sink=heard.append))
        while not heard:
            await asyncio.sleep(0.002)
        gate.set()
        assert await second == "one two three"
        with pytest.raises(FlowError, match="sink"):
            await first

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
    assert "".join(heard) == "one two three"
    assert len(handler.asked) == 1


def test_a_flow_that_left_hears_nothing_more() -> None:
    gate = threading.Event()
    handler = FakeChat(whole, deltas=PIECES, gate=gate)
    gone: list[str] = []

    async def scenario(runner: Runner) -> None:
        other = asyncio.ensure_future(runner.arun(stream("q")))
        leaving = asyncio.ensure_future(runner.arun(stream("q"), sink=gone.append))
        while not gone:
            await asyncio.sleep(0.005)
        leaving.cancel()
        await asyncio.wait([leaving])
        gate.set()
        await other

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
        assert runner.run(ask_all("z")) == ["one two three"]
    assert "".join(gone) in ("one ", "one two ")
