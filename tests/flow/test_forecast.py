"""Rules 13 and 14: what a job would do, before any of it is paid for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flow_fakes import FakeChat, FakeFetch, FakeSearch, ask, limited, prompt, user

from ragwright.core import Usage
from ragwright.flow import (
    Chat,
    ChatReply,
    Embed,
    EmbedReply,
    Fetch,
    Flow,
    OnDelta,
    Range,
    Replies,
    Runner,
    Search,
    SendHandler,
    branch,
    embed,
    fetch,
    gather,
    search_keyword,
    send,
)

pytest_plugins = ["flow_stores"]


def plain(text: str) -> Flow[list[str]]:
    chunk = (yield from search_keyword("s", text, 1))[0][0]
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


def prompt_tokens(runner: Runner, text: str) -> Range:
    return runner.forecast([lambda: ask(text)]).prompt_tokens


def test_counts_are_exact_where_nothing_branches_and_leave_out_the_known(replies: Replies) -> None:
    handler, search = FakeChat(), FakeSearch()
    texts = ["a", "b", "c", "a"]  # the last asks nothing new
    with Runner({Chat: handler, Search: search}, replies=replies) as runner:
        forecast = runner.forecast([lambda t=t: plain(t) for t in texts])  # type: ignore[misc]
        assert forecast.calls.exact
        assert handler.asked == []
        list(runner.map(plain(t) for t in texts))
        assert forecast.calls.expected == len(handler.asked) == 6
        assert (forecast.models, forecast.uncertain) == ({"m": 6}, 0)
        assert search.batches  # free local work really ran
        before = (runner.progress.reused, runner.progress.calls)
        for texts, new, known in (["a", "b", "d"], 2, 4), (["a"], 0, 2):
            again = runner.forecast([lambda t=t: plain(t) for t in texts])  # type: ignore[misc]
            assert (again.calls.expected, again.reused) == (new, known)
        assert (runner.progress.reused, runner.progress.calls) == before


def test_a_branch_is_a_range_that_holds_what_happens() -> None:
    handler = FakeChat(lambda r, n: "3" if "again 2" in prompt(r) else "no number")
    with Runner({Chat: handler}) as runner:
        calls = runner.forecast([lambda: branching("a"), lambda: ask("b")]).calls
        list(runner.map([branching("a"), ask("b")]))
    assert (calls.low, calls.expected, calls.high) == (2, 3, 5)
    assert calls.low <= len(handler.asked) <= calls.high


def test_a_flow_that_chokes_on_a_stand_in_makes_the_count_a_floor() -> None:
    def parsing() -> Flow[int]:
        number = int((yield from ask("give me a number")))
        yield from ask("and another")
        return number

    with Runner({Chat: FakeChat(lambda r, n: "7")}) as runner:
        forecast = runner.forecast([parsing, lambda: parsing()])
    assert (forecast.calls.expected, forecast.uncertain) == (1, 2)


def test_stand_in_vectors_have_the_length_of_real_ones_and_no_page_is_fetched() -> None:
    class Embedder(SendHandler[Embed, EmbedReply]):
        def dimensions(self, request: Embed) -> int | None:
            return 4

        async def send(self, request: Embed, on_delta: OnDelta | None = None) -> EmbedReply:
            raise AssertionError("a dry run calls no model")

    lengths: list[tuple[int, ...]] = []

    def flow() -> Flow[int]:
        vectors = yield from embed("e", ["a", "b"])
        lengths.append(vectors.shape)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
        yield from ask("after it")
        return (yield from fetch("https://example.org/")).status

    pages = FakeFetch()
    with Runner({Embed: Embedder(), Chat: FakeChat(), Fetch: pages}) as runner:
        forecast = runner.forecast([flow])
    assert lengths == [(2, 4)]
    assert (forecast.calls.expected, forecast.uncertain, pages.seen) == (3, 0, 0)


def test_money_is_bounded_by_the_longest_reply_and_unknown_without_a_price() -> None:
    with Runner({Chat: FakeChat(price=0.01)}) as runner:
        cost = runner.forecast([lambda: limited("a", 50)]).cost
        assert cost is not None
        assert cost.high == pytest.approx(0.5)
        assert cost.low <= cost.expected <= cost.high
    unpriced = FakeChat()
    unpriced.costs = True
    with Runner({Chat: unpriced}) as runner:
        assert runner.forecast([lambda: limited("a", 50)]).cost is None
        assert runner.run(limited("a", 50)) == "re: a"  # without --max-cost it works all the same


def test_tokens_are_estimated_by_the_ratio_a_model_taught_with_a_margin(tmp_path: Path) -> None:
    """This model counts one token for each two characters: the default guess is too low."""

    def answer(request: Chat, _n: int) -> ChatReply:
        return ChatReply("x", Usage(1, len(prompt(request)) // 2, 4))

    text, path = "word " * 400, tmp_path / "replies.db"
    replies = Replies(path)
    with Runner({Chat: FakeChat(answer)}, replies=replies) as runner:
        naive = runner.forecast([lambda: ask(text)])
        list(runner.map(ask(text + str(i)) for i in range(5)))
        taught = runner.forecast([lambda: ask(text)])
        assert naive.prompt_tokens.expected < 1000
        assert taught.completion_tokens.expected == pytest.approx(4)
        assert taught.seconds is not None
        assert naive.seconds is None
    replies.close()
    replies = Replies(path)  # what was taught outlives the process
    with Runner({Chat: FakeChat(answer)}, replies=replies) as runner:
        for found in (taught.prompt_tokens, prompt_tokens(runner, text)):
            assert found.low == pytest.approx(909, abs=1)
            assert found.expected == pytest.approx(1000, abs=1)
            assert found.high == pytest.approx(1108, abs=1)
    replies.close()


def test_prompts_are_counted_as_prose_before_a_first_reply_with_a_count(replies: Replies) -> None:
    """Four characters a token is what English has; texts of other scripts have more tokens."""
    text = "The night line for nurses opens at ten, and closes at six. " * 40
    silent = FakeChat(lambda r, n: ChatReply("x", Usage()))
    with Runner({Chat: silent}, replies=replies) as runner:
        found = prompt_tokens(runner, text)
        dense = prompt_tokens(runner, "夜间热线" * 100)
        list(runner.map(ask("b" * 300 + str(i)) for i in range(5)))
        assert prompt_tokens(runner, text) == found
    true = len(text) // 4
    assert found.low <= 0.85 * true < true <= found.high
    assert found.expected == pytest.approx(true, rel=0.01)
    assert 250 <= dense.expected <= 400 <= dense.high * 1.25


@pytest.mark.parametrize(
    ("likely", "tokens"),
    [(None, (50, 50, 100)), ((10, 30), (10, 30, 100)), ((80, 300), (80, 100, 100))],
)
def test_a_request_may_say_how_long_its_reply_gets(
    likely: tuple[int, int] | None, tokens: tuple[int, int, int]
) -> None:
    made = Chat("m", user("a"), (("max_tokens", 100),))
    request = replace(made, likely=likely)
    assert request == made
    with Runner({Chat: FakeChat()}) as runner:
        found = runner.forecast([lambda: send(request, ChatReply)]).completion_tokens
    assert (found.low, found.expected, found.high) == tokens
