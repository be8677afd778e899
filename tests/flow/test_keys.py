"""Rules 10 and 12: what decides a reply, what is never reused, the same bytes twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flow_fakes import FakeChat, ask, prompt, user

from ragwright.core import ModelReplyError, Usage
from ragwright.flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Flow,
    Message,
    OnDelta,
    Replies,
    Reply,
    Request,
    Rerank,
    RerankReply,
    RetryPolicy,
    Runner,
    RunnerOptions,
    SendHandler,
    send,
)


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[Replies]:
    store = Replies(tmp_path / "replies.db")
    yield store
    store.close()


BASE: Mapping[str, Any] = {"model": "m", "messages": user("a"), "params": (("seed", 1),)}


def calls_for(replies: Replies, *requests: Chat) -> int:
    handler = FakeChat()

    def flow(request: Chat) -> Flow[str]:
        return (yield from send(request, ChatReply)).text

    for request in requests:
        with Runner({Chat: handler}, replies=replies) as runner:
            runner.run(flow(request))
    return len(handler.asked)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"messages": user("b")},
        {"messages": (Message("system", "a"),)},
        {"messages": (Message("user", ""), Message("user", "a"))},
        {"params": (("seed", 2),)},
        {"params": ()},
        {"schema": "{}"},
        {"sample": 1},
    ],
)
def test_whatever_decides_the_reply_is_in_the_key(replies: Replies, change: dict[str, Any]) -> None:
    assert calls_for(replies, Chat(**BASE), Chat(**{**BASE, **change})) == 2


@pytest.mark.parametrize("change", [{"timeout": 3.0}, {"stream": True}, {"sources": ("d",)}])
def test_whatever_does_not_is_not(replies: Replies, change: dict[str, Any]) -> None:
    assert calls_for(replies, Chat(**BASE), Chat(**{**BASE, **change})) == 1


def test_address_scope_and_attempt_are_in_the_key(replies: Replies) -> None:
    handler = FakeChat()
    with Runner({Chat: handler}, replies=replies) as runner:
        runner.run(ask("a"))
        runner.run(ask("a"))
        assert len(handler.asked) == 1
        runner.run(ask("a"), scope="tenant 1")
        runner.run(ask("a"), scope="tenant 2")
        runner.run(ask("a"), scope="tenant 2")
        assert len(handler.asked) == 3
        assert len(list(runner.outcomes([ask("a")], scope="tenant 3"))) == 1
        assert len(handler.asked) == 4
        handler.name = "another server"
        runner.run(ask("a"))
        assert len(handler.asked) == 5
    with Runner({Chat: handler}, RunnerOptions(attempt=1), replies=replies) as runner:
        runner.run(ask("a"))
        runner.run(ask("a"))
    assert len(handler.asked) == 6


def test_a_known_reply_is_read_without_asking(replies: Replies) -> None:
    handler = FakeChat()
    request = Chat(**BASE)

    def flow() -> Flow[str]:
        return (yield from send(request, ChatReply)).text

    with Runner({Chat: handler}, replies=replies) as runner:
        assert runner.known(request) is None
        text = runner.run(flow(), scope="tenant 1")
        found = runner.known(request, scope="tenant 1")
        assert isinstance(found, ChatReply)
        assert (found.text, found.cached) == (text, True)
        assert runner.known(request) is None
        assert runner.forecast([flow], scope="tenant 1").calls.high == 0
        assert runner.forecast([flow]).calls.low == 1
    assert len(handler.asked) == 1
    with Runner({Chat: handler}, RunnerOptions(reuse=False), replies=replies) as runner:
        assert runner.known(request, scope="tenant 1") is None


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
    once = RetryPolicy(attempts=1)
    with Runner({Chat: handler}, replies=replies, retry=once) as runner:
        first = next(iter(runner.outcomes([ask("a")])))
        assert first.value == (bad.text if isinstance(bad, ChatReply) else None)
        assert runner.run(ask("a")) == "fine"
        assert runner.run(ask("a")) == "fine"
    assert len(handler.asked) == 2


def test_a_reused_reply_says_so_and_costs_nothing_again(replies: Replies) -> None:
    handler = FakeChat(price=0.5)

    def flow() -> Flow[ChatReply]:
        return (yield from send(Chat("m", user("a")), ChatReply))

    with Runner({Chat: handler}, replies=replies) as runner:
        first, second = runner.run(flow()), runner.run(flow())
        assert runner.budget.spent == 5
    assert (first.cached, second.cached) == (False, True)
    assert first.usage == second.usage
    assert replace(first.usage, seconds=0.0) == Usage(1, 10, 10, 5.0)


class Fixed(SendHandler[Any, Any]):
    """Gives one reply, once."""

    name = "fixed"

    def __init__(self, reply: Reply) -> None:
        self.replies = [reply]

    async def send(self, request: Any, on_delta: OnDelta | None = None) -> Any:
        return self.replies.pop()


class FixedBatch(BatchHandler[Any, Any]):
    """The same for requests that are sent in batches."""

    name = "fixed"

    def __init__(self, reply: Reply) -> None:
        self.replies = [reply]

    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        return [self.replies.pop() for _ in requests]


Paid = ChatReply | CompleteReply | RerankReply | EmbedReply


def stored(replies: Replies, request: Request, reply: Paid) -> list[Paid]:
    """The reply as it is given, and as a second run gets it, which may not ask again."""
    batched = isinstance(request, Embed | Rerank)
    handler: Any = FixedBatch(reply) if batched else Fixed(reply)
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
def test_a_stored_reply_comes_back_whole(replies: Replies, request_: Request, reply: Paid) -> None:
    given, again = stored(replies, request_, reply)
    assert again == replace(given, cached=True)
    assert replace(again, usage=reply.usage, cached=False) == reply


def test_stored_vectors_come_back_to_the_bit(replies: Replies) -> None:
    vectors = np.array([[0.1, -2.5], [3e-30, 1e30]], dtype=np.float32)
    given, found = stored(replies, Embed("m", ("a", "b")), EmbedReply(vectors, Usage(1, 5)))
    assert isinstance(found, EmbedReply)
    assert isinstance(given, EmbedReply)
    assert found.cached
    assert found.vectors.tobytes() == vectors.tobytes()
    assert found.usage == given.usage
    assert found.usage.prompt_tokens == 5


def test_a_second_run_gives_the_same_bytes_in_the_same_order(tmp_path: Path) -> None:
    def row(i: int) -> Flow[dict[str, str]]:
        return {"id": str(i), "text": (yield from ask(f"question {i % 37}"))}

    exports = []
    for attempt in range(3):
        handler = FakeChat(lambda r, n: f"about {prompt(r)}", latency=0.001 * attempt)
        replies = Replies(tmp_path / f"replies{attempt % 2}.db")
        with Runner({Chat: handler}, replies=replies) as runner:
            rows = list(runner.map(row(i) for i in range(120)))
        replies.close()
        exports.append("\n".join(json.dumps(r) for r in rows))
    assert exports[0] == exports[1] == exports[2]
