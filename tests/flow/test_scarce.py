"""Rules 4 and 11: a full disk, a busy file, claims that run out, pages that are large."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, user

from ragwright.core import StoreFullError, Usage
from ragwright.flow import (
    Budget,
    Chat,
    ChatReply,
    Claim,
    Flow,
    Replies,
    ReplyEntry,
    Runner,
    RunnerOptions,
    _calls as calls,
    chat,
    gather,
)
from ragwright.ledger import Connection


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[Replies]:
    store = Replies(tmp_path / "replies.db")
    yield store
    store.close()


def entry(key: str, size: int = 10) -> ReplyEntry:
    return ReplyEntry(key, "Chat", "m", "", b"x" * size, True, Usage(1, 5, 5), 15, 0.1, ())


def written(store: Replies, *entries: ReplyEntry) -> list[BaseException | None]:
    """Error of each, in order, put into the queue at one moment."""
    return [stored.exception() for stored in [store.put(each) for each in entries]]


def almost_full(store: Replies, pages: int) -> None:
    """Leave room for so many pages more."""

    def work(connection: Connection) -> None:
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {used + pages}")

    store.open().writer.call(work)


def claim(store: Replies, lease: float) -> tuple[Claim, str]:
    token, claimed = store.claim("k", "Chat", "m", lease)
    return claimed.result(10), token


# -- a full disk ---------------------------------------------------------------------------


def test_a_full_disk_is_called_so_and_what_still_fits_is_kept(replies: Replies) -> None:
    almost_full(replies, 4)
    held = threading.Event()
    replies.open().writer.submit(lambda _: held.wait(10))  # what follows: one batch
    threading.Timer(0.05, held.set).start()
    first, second, third = written(replies, entry("a"), entry("b", 200_000), entry("c"))
    assert first is None
    assert isinstance(second, StoreFullError)
    assert third is None
    assert replies.get("a") is not None
    assert replies.get("b") is None


def test_a_reply_that_cannot_be_kept_for_want_of_room_stops_what_would_be_paid(
    replies: Replies,
) -> None:
    handler = FakeChat(lambda r, n: "x" * 30_000, latency=0.01, price=0.001)
    almost_full(replies, 40)  # room for some five replies
    options = RunnerOptions(concurrency=2)
    with Runner({Chat: handler}, options, replies=replies) as runner:
        outcomes = list(runner.outcomes((ask(str(i)) for i in range(200)), limit=10))
        with pytest.raises(StoreFullError):
            runner.run(ask("one more"))
    kept = sum(count for _, _, count, *_ in replies.statistics())
    assert kept > 1
    assert len(handler.asked) <= kept + 10 + 1  # the flows that were open, and one more
    assert {o.state for o in outcomes} == {"done", "skipped"}
    assert all(isinstance(o.error, StoreFullError) for o in outcomes if o.state == "skipped")


# -- a busy file ---------------------------------------------------------------------------


@pytest.mark.parametrize("hold", ["BEGIN", "BEGIN IMMEDIATE"])
def test_a_store_that_is_too_large_opens_while_another_process_uses_it(
    tmp_path: Path, hold: str
) -> None:
    path = tmp_path / "replies.db"
    store = Replies(path)
    written(store, *(entry(f"{i:03d}", 20_000) for i in range(40)))
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(hold)
    other.execute("SELECT count(*) FROM replies").fetchone()
    store = Replies(path, max_bytes=200_000)
    assert store.get("039") is not None
    store.close()
    other.close()
    again = Replies(path, max_bytes=200_000)
    assert again.size() <= 200_000
    assert again.get("039") is not None
    again.close()


# -- claims --------------------------------------------------------------------------------


def test_a_claim_that_has_run_out_is_anyones_and_the_first_cannot_take_it_back(
    replies: Replies,
) -> None:
    first, token = claim(replies, 0.1)
    assert first.state == "ours"
    time.sleep(0.11)
    assert claim(replies, 60)[0].state == "ours"
    replies.renew("k", token, 60)
    replies.release("k", token)
    assert claim(replies, 60)[0].state == "leased"


@pytest.mark.slow
def test_a_claim_is_renewed_while_its_call_is_pending(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_LEASE_SECONDS", 0.3)
    handler = FakeChat(latency=1.0)
    answers: list[str] = []

    def work() -> None:
        with Runner({Chat: handler}, replies=replies) as runner:
            answers.append(runner.run(ask("a")))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["re: a"] * 2
    assert handler.asked == ["a"]


@pytest.mark.slow
def test_a_renewed_claim_is_given_back_when_its_call_fails(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_LEASE_SECONDS", 0.3)
    handler = FakeChat(lambda r, n: ValueError("bug"), latency=0.5)
    with Runner({Chat: handler}, replies=replies) as runner, pytest.raises(ValueError, match="bug"):
        runner.run(ask("a"))
    count = "SELECT count(*) FROM replies"
    assert replies.open().writer.call(lambda c: c.execute(count).fetchone()[0]) == 0


# -- sources -------------------------------------------------------------------------------


def of(source: str) -> Flow[str]:
    return (yield from chat("m", user("the same text"), sources=[source])).text


def test_a_known_reply_is_forgotten_with_every_document_it_was_used_for(replies: Replies) -> None:
    handler = FakeChat()
    with Runner({Chat: handler}, replies=replies) as runner:
        runner.run(of("one"))
        runner.run(of("two"))  # from the store
        assert handler.asked == ["the same text"]
        assert replies.forget(source="two") == 1
        assert replies.forget(source="one") == 0


def test_a_reply_that_two_documents_asked_for_at_once_is_of_both(replies: Replies) -> None:
    with Runner({Chat: FakeChat(latency=0.05)}, replies=replies) as runner:
        runner.run(gather([of("one"), of("two")]))
        assert replies.forget(source="two") == 1
        assert replies.forget(source="one") == 0


def test_sums_over_calls_do_not_read_their_bodies(replies: Replies) -> None:
    for question in (
        "SELECT total(seconds) FROM replies WHERE lane = 'm' AND state IN ('done', 'spent')",
        "SELECT kind, lane, total(cost) FROM replies WHERE state != 'pending' GROUP BY kind, lane",
    ):
        plan = replies.open().select(f"EXPLAIN QUERY PLAN {question}")
        assert "COVERING INDEX" in str(plan), plan


# -- money nobody can name -----------------------------------------------------------------


def test_a_reply_of_unknown_cost_counts_as_the_most_it_could_cost() -> None:
    """This server counts no tokens: nobody knows what a reply did cost."""
    handler = FakeChat(lambda r, n: ChatReply("x", Usage()), price=1.0)
    with Runner({Chat: handler}, RunnerOptions(longest_reply=10), budget=Budget(35)) as runner:
        states = [o.state for o in runner.outcomes((ask(str(i)) for i in range(9)), limit=1)]
        assert runner.budget.spent == 30
    assert states.count("done") == len(handler.asked) == 3


def test_a_price_that_is_missing_only_afterwards_counts_as_the_worst_case() -> None:
    class Capricious(FakeChat):
        def price(self, request: Chat, usage: Usage) -> float | None:
            return 10.0 if usage.completion_tokens == 10 else None

    handler = Capricious(lambda r, n: ChatReply("x", Usage(1, 3, 3)), price=1.0)
    with Runner({Chat: handler}, RunnerOptions(longest_reply=10), budget=Budget(25)) as runner:
        list(runner.outcomes((ask(str(i)) for i in range(9)), limit=1))
        assert runner.budget.spent == 20
    assert len(handler.asked) == 2
