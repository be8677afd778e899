"""Rules 6, 9, 10 and 12: what decides a reply, what is remembered and where, one stream a flow."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flow_fakes import (
    FAST,
    ONCE,
    FakeChat,
    FakeEmbed,
    FakeFetch,
    FakeSearch,
    ask,
    ask_all,
    prompt,
    until,
    user,
)

from ragwright.core import FlowError, ModelReplyError, ModelUnavailableError, Usage
from ragwright.flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Fetch,
    Flow,
    Message,
    OnDelta,
    Replies,
    Reply,
    Request,
    Rerank,
    RerankReply,
    Runner,
    RunnerOptions,
    Search,
    SendHandler,
    chat,
    embed,
    fetch,
    gather,
    search_keyword,
    send,
)

pytest_plugins = ["flow_stores"]

BASE: Mapping[str, Any] = {"model": "m", "messages": user("a"), "params": (("seed", 1),)}

# -- what decides a reply ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({"model": "other"}, 2),
        ({"messages": user("b")}, 2),
        ({"messages": (Message("system", "a"),)}, 2),
        ({"messages": (*user(""), *user("a"))}, 2),
        ({"params": (("seed", 2),)}, 2),
        ({"params": ()}, 2),
        ({"schema": "{}"}, 2),
        ({"sample": 1}, 2),
        ({"timeout": 3.0}, 1),
        ({"stream": True}, 1),
        ({"sources": ("d",)}, 1),
    ],
    ids=str,
)
def test_only_what_decides_is_in_the_key(
    replies: Replies, change: dict[str, Any], calls: int
) -> None:
    handler = FakeChat()
    for request in (Chat(**BASE), Chat(**{**BASE, **change})):
        with Runner({Chat: handler}, replies=replies) as runner:
            runner.run(send(request, ChatReply))
    assert len(handler.asked) == calls


def test_address_scope_and_attempt_are_in_the_key(replies: Replies) -> None:
    handler = FakeChat()
    with Runner({Chat: handler}, replies=replies) as runner:
        for calls, scope in enumerate(("", "tenant 1", "tenant 2"), 1):
            for _ in range(2):
                runner.run(ask("a"), scope=scope)
            assert len(handler.asked) == calls
        assert len(list(runner.outcomes([ask("a")], scope="tenant 3"))) == 1
        assert len(handler.asked) == 4
        handler.name = "another server"
        runner.run(ask("a"))
        assert len(handler.asked) == 5
    with Runner({Chat: handler}, RunnerOptions(attempt=1), replies=replies) as runner:
        runner.run(ask("a"))
        runner.run(ask("a"))
    assert len(handler.asked) == 6


def test_without_reuse_every_call_is_made_and_kept(replies: Replies) -> None:
    handler = FakeChat(lambda r, n: f"reply {n}")
    with Runner({Chat: handler}, RunnerOptions(reuse=False), replies=replies) as runner:
        assert [runner.run(ask("a")) for _ in range(3)] == ["reply 1", "reply 2", "reply 3"]
    with Runner({Chat: handler}, replies=replies) as runner:
        assert runner.run(ask("a")) == "reply 3"


@pytest.mark.parametrize(
    "bad",
    [
        ChatReply("cut", finish="length"),
        ChatReply("no", finish="content_filter"),
        ChatReply(""),
        ChatReply("  \n "),
        ModelReplyError("not JSON"),
    ],
)
def test_what_went_wrong_is_never_reused(replies: Replies, bad: ChatReply | Exception) -> None:
    handler = FakeChat(lambda r, n: bad if n == 1 else "fine")
    with Runner({Chat: handler}, replies=replies, retry=ONCE) as runner:
        first = next(iter(runner.outcomes([ask("a")])))
        assert first.value == (bad.text if isinstance(bad, ChatReply) else None)
        assert runner.run(ask("a")) == "fine"
        assert runner.run(ask("a")) == "fine"
    assert len(handler.asked) == 2


# -- what is remembered, and where ---------------------------------------------------------


class Once:
    name = "fixed"

    def __init__(self, reply: Reply) -> None:
        self.replies = [reply]


class Fixed(Once, SendHandler[Any, Any]):
    async def send(self, request: Any, on_delta: OnDelta | None = None) -> Any:
        return self.replies.pop()


class FixedBatch(Once, BatchHandler[Any, Any]):
    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        return [self.replies.pop() for _ in requests]


def stored(replies: Replies, request: Request, reply: Reply) -> list[Any]:
    """The reply as it is given, and as a second run gets it, which may not ask again."""
    handler: Any = FixedBatch(reply) if isinstance(request, Embed | Rerank) else Fixed(reply)
    found = []
    for _ in range(2):
        with Runner({type(request): handler}, replies=replies) as runner:
            found.append(runner.run(send(request, type(reply))))
    assert not handler.replies
    return found


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (Chat("m", ()), ChatReply("é\ud800", Usage(1, 2, 3, 0.1), "stop", "m-1", ("seed",))),
        (Complete("m", "p"), CompleteReply("x", tokens=(("a", -0.5), ("b", -1.0)))),
        (Rerank("m", "q", ("a", "b")), RerankReply((0.25, 1.0), Usage(1), scale="logit")),
    ],
)
def test_a_stored_reply_comes_back_whole(replies: Replies, request_: Request, reply: Any) -> None:
    given, again = stored(replies, request_, reply)
    assert again == replace(given, cached=True)
    assert replace(again, usage=reply.usage, cached=False) == reply


def test_stored_vectors_come_back_to_the_bit(replies: Replies) -> None:
    vectors = np.array([[0.1, -2.5], [3e-30, 1e30]], dtype=np.float32)
    given, found = stored(replies, Embed("m", ("a", "b")), EmbedReply(vectors, Usage(1, 5)))
    assert found.cached
    assert found.vectors.tobytes() == vectors.tobytes()
    assert found.usage == given.usage
    assert found.usage.prompt_tokens == 5


def test_a_second_run_gives_the_same_bytes_in_the_same_order(tmp_path: Path) -> None:
    def row(i: int) -> Flow[dict[str, str]]:
        return {"id": str(i), "text": (yield from ask(f"question {i % 37}"))}

    exports = set()
    for attempt in range(3):
        handler = FakeChat(lambda r, n: f"about {prompt(r)}", latency=0.001 * attempt)
        replies = Replies(tmp_path / f"replies{attempt % 2}.db")
        with Runner({Chat: handler}, replies=replies) as runner:
            exports.add("\n".join(map(json.dumps, runner.map(row(i) for i in range(120)))))
        replies.close()
    assert len(exports) == 1


def test_searches_are_remembered_by_snapshot_pages_not_and_none_stored(replies: Replies) -> None:
    search, page = FakeSearch(), FakeFetch()
    with Runner({Search: search, Fetch: page}, replies=replies) as runner:
        for snapshot in ("s", "s", "newer"):
            assert runner.run(search_keyword(snapshot, "a", 1))[0][0] == "chunk of a"
        for page.version in (1, 2):
            assert runner.run(fetch("https://a.example/")).body == b"page v%d" % page.version
    assert search.batches == [["a"], ["a"]]
    assert replies.statistics() == []


def test_queries_are_embedded_once_and_kept_passages_never(tmp_path: Path) -> None:
    def both() -> Flow[None]:
        query = yield from embed("e", ["abc"], "query")
        assert query.tolist() == [[3.0, 1.0]]
        yield from embed("e", ["a passage"], "passage")

    handler = FakeEmbed()
    for _ in range(2):
        replies = Replies(tmp_path / "replies.db")
        with Runner({Embed: handler}, replies=replies) as runner:
            runner.run(both())
            runner.run(both())
        assert [(kind, n) for kind, _, n, *_ in replies.statistics()] == [("Embed", 1)]
        replies.close()
    roles = [r.role for r in handler.carried]
    assert (roles.count("query"), roles.count("passage")) == (1, 4)


# -- streams -------------------------------------------------------------------------------

WHOLE, PIECES = "one two three", ("one ", "two ", "three")


def stream(text: str, schema: str = "") -> Flow[str]:
    return (yield from chat("m", user(text), stream=True, schema=schema)).text


def streaming(gate: threading.Event | None = None) -> FakeChat:
    return FakeChat(lambda r, n: WHOLE, deltas=PIECES, gate=gate)


def test_pieces_go_to_the_sink_and_a_known_reply_is_one_piece(replies: Replies) -> None:
    handler = streaming()
    with Runner({Chat: handler}, replies=replies) as runner:
        for pieces in (list(PIECES), [WHOLE]):
            heard: list[str] = []
            assert runner.run(stream("q"), sink=heard.append) == WHOLE
            assert heard == pieces
        unheard: list[str] = []  # a reply still to be validated does not stream
        assert runner.run(stream("other", schema="{}"), sink=unheard.append) == WHOLE
    assert unheard == []
    assert len(handler.asked) == 2


@pytest.mark.parametrize("first_streams", [True, False])
def test_who_joins_a_call_late_gets_the_text_so_far(first_streams: bool) -> None:
    gate = threading.Event()
    handler = streaming(gate) if first_streams else FakeChat(lambda r, n: WHOLE, gate=gate)
    early, late = list[str](), list[str]()

    async def scenario(runner: Runner) -> None:
        flow, sink = (stream("q"), early.append) if first_streams else (ask("q"), None)
        first = asyncio.ensure_future(runner.arun(flow, sink=sink))
        await until(lambda: len(early) == 2 if first_streams else handler.asked)
        second = asyncio.ensure_future(runner.arun(stream("q"), sink=late.append))
        await (until(lambda: late) if first_streams else asyncio.sleep(0.05))
        gate.set()
        await asyncio.gather(first, second)

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
    assert early == (list(PIECES) if first_streams else [])
    assert late == (["one two ", "three"] if first_streams else [WHOLE])
    assert len(handler.asked) == 1


def test_a_cut_stream_keeps_nothing_and_is_not_tried_again(replies: Replies) -> None:
    handler = FakeChat(lambda r, n: ModelReplyError("cut off"), deltas=PIECES[:2])
    heard: list[str] = []
    runner = Runner({Chat: handler}, replies=replies, retry=FAST)
    with runner, pytest.raises(ModelReplyError):
        runner.run(stream("q"), sink=heard.append)
    assert len(handler.asked) == 1  # what was shown cannot be taken back
    assert heard == list(PIECES[:2])
    assert replies.statistics() == []


@pytest.mark.parametrize(
    ("error", "deltas", "sink"),
    [
        (ModelUnavailableError("down"), (), lambda _: None),
        (ModelUnavailableError("down"), (), None),
        (ModelReplyError("cut"), ("x",), None),  # nobody was shown the first half
    ],
)
def test_a_stream_that_showed_nothing_is_tried_again(
    error: Exception, deltas: tuple[str, ...], sink: Callable[[str], None] | None
) -> None:
    handler = FakeChat(lambda r, n: "fine" if n > 1 else error, deltas=deltas)
    with Runner({Chat: handler}, retry=FAST) as runner:
        assert runner.run(stream("q"), sink=sink) == "fine"


def test_a_second_stream_in_a_flow_is_refused_before_it_costs_anything(replies: Replies) -> None:
    def twice() -> Flow[list[str]]:
        return [(yield from stream("a")), (yield from stream("b"))]

    handler = streaming()
    heard: list[str] = []
    with Runner({Chat: handler}, replies=replies) as runner:
        for flow in (twice(), twice(), gather([stream("a"), stream("a")])):
            with pytest.raises(FlowError, match="second"):  # known replies make no exception
                runner.run(flow, sink=heard.append)
            assert handler.asked == ["a"]
        assert runner.run(twice()) == [WHOLE] * 2  # without a sink nothing is shown


def test_a_sink_that_fails_fails_its_own_flow_and_one_that_left_hears_nothing_more() -> None:
    gate = threading.Event()
    handler = streaming(gate)
    heard, gone = list[str](), list[str]()

    def broken(_piece: str) -> None:
        raise ConnectionResetError("the reader has gone")

    async def scenario(runner: Runner) -> None:
        first = asyncio.ensure_future(runner.arun(stream("q"), sink=broken))
        await until(lambda: handler.asked)
        second = asyncio.ensure_future(runner.arun(stream("q"), sink=heard.append))
        leaving = asyncio.ensure_future(runner.arun(stream("q"), sink=gone.append))
        await until(lambda: heard and gone)
        leaving.cancel()
        await asyncio.wait([leaving])
        gate.set()
        assert await second == WHOLE
        with pytest.raises(FlowError, match="sink"):
            await first

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
        assert runner.run(ask_all("z")) == [WHOLE]
    assert "".join(heard) == WHOLE
    assert "".join(gone) in ("one ", "one two ")
    assert handler.asked == ["q", "z"]
