"""Rules 13 and 14: what a job would do, before any of it is paid for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flow_fakes import FakeChat, FakeFetch, FakeSearch, ask, prompt, user

from ragwright.core import Usage
from ragwright.flow import (
    Chat,
    ChatReply,
    Embed,
    EmbedReply,
    Fetch,
    Flow,
    OnDelta,
    Replies,
    Runner,
    RunnerOptions,
    Search,
    SendHandler,
    branch,
    chat,
    embed,
    fetch,
    gather,
    search_keyword,
    send,
)


def plain(text: str) -> Flow[list[str]]:
    found = yield from search_keyword("s", text, 1)
    chunk = found[0][0]
    return (yield from gather([ask(f"one about {chunk}"), ask(f"two about {chunk}")]))


def branching(text: str) -> Flow[str]:
    """One judge call, and a re-ask for each time the reply is not a number."""
    reply = yield from ask(text)
    planned = yield from branch(0, 1, 3)
    asked = 0
    while asked < planned if planned is not None else not reply.isdigit():
        asked += 1
        reply = yield from ask(f"{text} again {asked}")
    return reply


def test_counts_are_exact_where_nothing_branches(tmp_path: Path) -> None:
    handler, search = FakeChat(), FakeSearch()
    replies = Replies(tmp_path / "replies.db")
    texts = ["a", "b", "c", "a"]  # the last asks nothing new
    with Runner({Chat: handler, Search: search}, replies=replies) as runner:
        forecast = runner.forecast([lambda t=t: plain(t) for t in texts])  # type: ignore[misc]
        assert forecast.calls.exact
        assert handler.asked == []
        list(runner.map(plain(t) for t in texts))
    replies.close()
    assert forecast.calls.expected == len(handler.asked) == 6
    assert forecast.models == {"m": 6}
    assert forecast.uncertain == 0
    assert search.batches  # free local work really ran


def test_a_branch_is_a_range_that_holds_what_happens() -> None:
    handler = FakeChat(lambda r, n: "3" if "again 2" in prompt(r) else "no number")
    with Runner({Chat: handler}) as runner:
        forecast = runner.forecast([lambda: branching("a"), lambda: ask("b")])
        list(runner.map([branching("a"), ask("b")]))
    calls = forecast.calls
    assert (calls.low, calls.expected, calls.high) == (2, 3, 5)
    assert calls.low <= len(handler.asked) <= calls.high


def test_known_replies_are_not_counted_again(tmp_path: Path) -> None:
    replies = Replies(tmp_path / "replies.db")
    handler = FakeChat()
    with Runner({Chat: handler}, replies=replies) as runner:
        list(runner.map(ask(t) for t in "ab"))
        before = (runner.progress.reused, runner.progress.calls)
        forecast = runner.forecast([lambda t=t: ask(t) for t in "abc"])  # type: ignore[misc]
        assert (runner.progress.reused, runner.progress.calls) == before
        assert (forecast.calls.expected, forecast.reused) == (1, 2)
        again = runner.forecast([lambda: ask("a")])
        assert (again.calls.expected, again.reused) == (0, 1)
    replies.close()
    assert handler.asked == ["a", "b"]


def test_a_flow_that_chokes_on_a_stand_in_makes_the_count_a_floor() -> None:
    def parsing() -> Flow[int]:
        number = int((yield from ask("give me a number")))
        yield from ask("and another")
        return number

    with Runner({Chat: FakeChat(lambda r, n: "7")}) as runner:
        forecast = runner.forecast([parsing, lambda: parsing()])
    assert forecast.calls.expected == 1
    assert forecast.uncertain == 2


def test_stand_in_vectors_have_the_length_of_real_ones() -> None:
    class Embedder(SendHandler[Embed, EmbedReply]):
        def dimensions(self, request: Embed) -> int | None:
            return 4

        async def send(self, request: Embed, on_delta: OnDelta | None = None) -> EmbedReply:
            raise AssertionError("a dry run calls no model")

    lengths: list[tuple[int, ...]] = []

    def flow() -> Flow[str]:
        vectors = yield from embed("e", ["a", "b"])
        lengths.append(vectors.shape)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
        return (yield from ask("after it"))

    with Runner({Embed: Embedder(), Chat: FakeChat()}) as runner:
        forecast = runner.forecast([flow])
    assert lengths == [(2, 4)]
    assert forecast.calls.expected == 2
    assert forecast.uncertain == 0


def test_pages_are_not_fetched_in_a_dry_run(tmp_path: Path) -> None:
    def page() -> Flow[int]:
        return (yield from fetch("https://example.org/")).status

    handler = FakeFetch()
    with Runner({Fetch: handler}) as runner:
        assert runner.forecast([page]).calls.expected == 1
    assert handler.seen == 0


def test_money_is_bounded_by_the_longest_reply_and_unknown_without_a_price() -> None:
    def flow() -> Flow[str]:
        return (yield from chat("m", user("a"), {"max_tokens": 50})).text

    with Runner({Chat: FakeChat(price=0.01)}) as runner:
        cost = runner.forecast([flow]).cost
        assert cost is not None
        assert cost.high == pytest.approx(0.5)
        assert cost.low <= cost.expected <= cost.high
    unpriced = FakeChat()
    unpriced.costs = True
    with Runner({Chat: unpriced}) as runner:
        assert runner.forecast([flow]).cost is None
        assert runner.run(flow()) == "re: a"  # without --max-cost it works all the same


def test_tokens_are_estimated_by_the_ratio_a_model_taught(tmp_path: Path) -> None:
    """This model counts one token for each two characters: the default guess is too low."""

    def answer(request: Chat, _n: int) -> str | Exception | ChatReply:
        return ChatReply("x", Usage(1, len(prompt(request)) // 2, 4))

    text = "word " * 400
    path = tmp_path / "replies.db"
    replies = Replies(path)
    with Runner({Chat: FakeChat(answer)}, replies=replies) as runner:
        naive = runner.forecast([lambda: ask(text + "?")])
        list(runner.map(ask(text + str(i)) for i in range(5)))
        taught = runner.forecast([lambda: ask(text + "?")])
        true = len(text + "?") // 2
        assert naive.prompt_tokens.expected < true
        assert true <= taught.prompt_tokens.expected <= 1.2 * true
        assert taught.completion_tokens.expected == pytest.approx(4)
        assert taught.seconds is not None
        assert naive.seconds is None
    replies.close()
    replies = Replies(path)  # what was taught outlives the process
    with Runner({Chat: FakeChat(answer)}, RunnerOptions(), replies=replies) as runner:
        again = runner.forecast([lambda: ask(text + "?")])
        assert true <= again.prompt_tokens.expected <= 1.2 * true
    replies.close()


def test_prompts_are_counted_as_prose_before_a_first_reply() -> None:
    """Four characters a token is what English has; texts of other scripts have more tokens."""
    text = "The night line for nurses opens at ten, and closes at six. " * 40
    with Runner({Chat: FakeChat()}) as runner:
        found = runner.forecast([lambda: ask(text)]).prompt_tokens
        dense = runner.forecast([lambda: ask("夜间热线" * 100)]).prompt_tokens
    true = len(text) // 4
    assert found.low <= 0.85 * true < true <= found.high
    assert found.expected == pytest.approx(true, rel=0.01)
    assert 250 <= dense.expected <= 400 <= dense.high * 1.25


def test_what_a_lane_taught_has_a_margin_to_both_sides(tmp_path: Path) -> None:
    def answer(request: Chat, _n: int) -> str | Exception | ChatReply:
        return ChatReply("x", Usage(1, len(prompt(request)) // 2, 4))

    with Runner({Chat: FakeChat(answer)}, replies=Replies(tmp_path / "replies.db")) as runner:
        list(runner.map(ask("word " * 400 + str(i)) for i in range(5)))
        found = runner.forecast([lambda: ask("word " * 400)]).prompt_tokens
    assert found.low == pytest.approx(909, abs=1)
    assert found.expected == pytest.approx(1000, abs=1)
    assert found.high == pytest.approx(1108, abs=1)


def test_replies_without_a_token_count_teach_nothing(tmp_path: Path) -> None:
    replies = Replies(tmp_path / "replies.db")
    silent = FakeChat(lambda r, n: ChatReply("x", Usage()))
    with Runner({Chat: silent}, replies=replies) as runner:
        before = runner.forecast([lambda: ask("a" * 300)]).prompt_tokens
        list(runner.map(ask("b" * 300 + str(i)) for i in range(5)))
        assert runner.forecast([lambda: ask("a" * 300)]).prompt_tokens == before
    replies.close()


def test_a_request_may_say_how_long_its_reply_gets() -> None:
    """What it says is no part of it, and bounded by what a reply may have."""
    made = Chat("m", user("a"), (("max_tokens", 100),))

    def told(likely: tuple[int, int] | None) -> tuple[float, float, float]:
        request = replace(made, likely=likely)
        assert request == made
        with Runner({Chat: FakeChat()}) as runner:
            found = runner.forecast([lambda: send(request, ChatReply)]).completion_tokens
        return found.low, found.expected, found.high

    assert told(None) == (50, 50, 100)
    assert told((10, 30)) == (10, 30, 100)
    assert told((80, 300)) == (80, 100, 100)
