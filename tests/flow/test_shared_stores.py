"""Replies and runs behave alike in a SQLite file and in a PostgreSQL database."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, user
from forgetting import forget_at

from ragwright.core import StoreError, Usage
from ragwright.flow import Chat, Claim, Flow, Replies, ReplyEntry, Runner, RunRow, Runs, chat
from ragwright.ledger import Place, SharedPlace

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    folder = request.getfixturevalue("postgres")
    return SharedPlace(f"postgresql://admin@/postgres?host={folder}", f"t{next(NUMBERS)}")


@pytest.fixture
def open_replies(place: Place) -> Iterator[Callable[[], Replies]]:
    """Opens the same replies again, as another process would."""
    opened: list[Replies] = []

    def make() -> Replies:
        opened.append(Replies(place))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def replies(open_replies: Callable[[], Replies]) -> Replies:
    return open_replies()


@pytest.fixture
def runs(place: Place) -> Iterator[Runs]:
    store = Runs(place)
    yield store
    store.close()


def entry(
    key: str, text: str = "x", *, sources: tuple[str, ...] = (), scope: str = ""
) -> ReplyEntry:
    usage = Usage(1, 5, 5, 0.25)
    return ReplyEntry(key, "Chat", "m", scope, text.encode(), True, usage, 15, 0.1, sources)


def put(store: Replies, *entries: ReplyEntry) -> None:
    for each in entries:
        store.put(each).result(40)


def claim(store: Replies, key: str, seconds: float = 60) -> Claim:
    return store.claim(key, "Chat", "m", seconds)[1].result(40)


# -- replies -------------------------------------------------------------------------------


def test_a_reply_is_found_by_every_other_process(open_replies: Callable[[], Replies]) -> None:
    one, other = open_replies(), open_replies()
    put(one, entry("k", "naïve \0 text"))
    assert other.get("k") == "naïve \0 text".encode()
    assert other.get("none") is None


def test_a_call_is_one_process_s_until_its_lease_ends(
    open_replies: Callable[[], Replies],
) -> None:
    one, other = open_replies(), open_replies()
    first = claim(one, "k")
    assert first.state == "ours"
    assert claim(other, "k").state == "leased"
    one.release("k", first.name)
    assert claim(one, "y").state == "ours"  # written after the release
    second = claim(other, "k", 600)
    assert second.state == "ours"
    other.renew("k", second.name, 0.05)
    assert claim(other, "x").state == "ours"  # written after the renewal
    threading.Event().wait(0.1)
    third = claim(one, "k")
    assert third.state == "ours"  # its lease has ended by the database's clock
    other.release("k", second.name)  # late: the claim is no longer its own
    assert claim(other, "k").state == "leased"
    put(one, entry("k", "paid"))
    assert claim(other, "k") == Claim("known", b"paid")


def test_one_of_many_gets_the_call(open_replies: Callable[[], Replies]) -> None:
    stores = [open_replies() for _ in range(4)]
    keys = [f"k{i}" for i in range(60)]
    won: list[str] = []

    def work(store: Replies, at: int) -> None:
        for key in keys[at:] + keys[:at]:  # each in another order
            if claim(store, key).state == "ours":
                won.append(key)

    threads = [threading.Thread(target=work, args=(s, 13 * i)) for i, s in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(keys)


def test_two_runners_pay_once(open_replies: Callable[[], Replies]) -> None:
    handlers = [FakeChat(latency=0.05), FakeChat(latency=0.05)]

    def work(handler: FakeChat) -> None:
        with Runner({Chat: handler}, replies=open_replies()) as runner:
            answers = list(runner.map(ask(f"q{i}") for i in range(20)))
        assert answers == [f"re: q{i}" for i in range(20)]

    threads = [threading.Thread(target=work, args=(handler,)) for handler in handlers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(handlers[0].asked + handlers[1].asked) == sorted(f"q{i}" for i in range(20))


def test_a_failed_call_leaves_no_claim(replies: Replies) -> None:
    handler = FakeChat(lambda r, n: ValueError("bug"))
    with Runner({Chat: handler}, replies=replies) as runner, pytest.raises(ValueError, match="bug"):
        runner.run(ask("a"))
    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        assert runner.run(ask("a")) == "re: a"


def test_figures_are_summed_by_model(replies: Replies) -> None:
    put(replies, entry("a"), entry("b"), entry("a"))
    claim(replies, "c")
    assert replies.statistics() == [("Chat", "m", 2, 10, 10, 0.5)]
    facts = replies.facts("m")
    assert (facts.calls, facts.prompt_tokens, facts.characters) == (2, 10, 30)
    assert facts.seconds == pytest.approx(0.2)
    assert replies.size() > 0


def test_forgetting_and_clearing_reach_what_they_should(replies: Replies) -> None:
    put(
        replies,
        entry("a", "one", sources=("doc", "other")),
        entry("b", "two", sources=("doc",)),
        entry("c", "three", sources=("other",)),
        entry("d", "four", scope="tenant"),
    )
    assert replies.forget(source="doc") == 2
    assert replies.get("a") is None
    assert replies.forget(scope="tenant") == 1
    assert replies.get("c") == b"three"
    replies.add_sources("c", ["third", "other"])
    assert replies.drop("third") == 1
    put(replies, entry("e"))
    assert replies.clear() == 1
    with pytest.raises(StoreError):
        replies.forget(source=" ")


def test_sources_of_a_chat_reach_the_store(replies: Replies) -> None:
    def flow(source: str) -> Flow[str]:
        return (yield from chat("m", user("text of doc"), sources=[source])).text

    with Runner({Chat: FakeChat()}, replies=replies) as runner:
        runner.run(flow("doc"))
        runner.run(flow("twin"))
        assert replies.forget(source="twin") == 1
        assert replies.forget(source="doc") == 0


def test_the_oldest_replies_go_when_there_are_too_many(
    place: Place, open_replies: Callable[[], Replies]
) -> None:
    store, chance = open_replies(), random.Random(0)
    put(store, *(entry(f"{i:03d}", chance.randbytes(10_000).hex()) for i in range(60)))
    store.close()
    small = Replies(place, max_bytes=400_000)
    kept = [i for i in range(60) if small.get(f"{i:03d}") is not None]
    small.close()
    assert 0 < len(kept) < 21
    assert kept == list(range(60 - len(kept), 60))


# -- runs ----------------------------------------------------------------------------------


def test_rows_stay_in_input_order_and_done_rows_stay(runs: Runs) -> None:
    run = runs.start("eval", {"a": 1})
    runs.append(run, RunRow(1, "b", "errored", {"error": "x"}), sources=["doc"])
    runs.append(run, RunRow(0, "a", "done", {"é\0": 1}), sources=["doc"])
    runs.append(run, RunRow(1, "b", "done", {"v": 2}), sources=["doc"])
    runs.append(run, RunRow(0, "a", "done", {"v": "never"}))
    runs.finish(run, "complete")
    assert [(r.id, r.state, r.body) for r in runs.rows(run)] == [
        ("a", "done", {"é\0": 1}),
        ("b", "done", {"v": 2}),
    ]
    assert runs.states(run) == {"a": "done", "b": "done"}
    found = runs.get(run)
    assert found.state == "complete"
    assert found.ended is not None
    assert found.ended >= found.started
    assert runs.holds(run)
    with pytest.raises(StoreError, match="unknown run"):
        runs.get("nowhere")


def test_a_run_is_found_by_what_was_run(runs: Runs) -> None:
    run = runs.start("eval", {"model": "m"}, scope="one")
    assert runs.unfinished("eval", {"model": "m"}, scope="one") == run
    assert runs.unfinished("eval", {"model": "m"}) is None
    runs.append(run, RunRow(0, "a", "errored", {}))
    runs.finish(run, "complete")
    assert runs.unfinished("eval", {"model": "m"}, scope="one") is None
    assert runs.unfinished("eval", {"model": "m"}, scope="one", errored=True) == run
    assert runs.complete("eval", {"model": "m"}, scope="one") == run
    other = runs.start("sweep", {})
    assert [one.id for one in runs.list()] == [run, other]
    assert [one.id for one in runs.list("sweep")] == [other]
    runs.name(run, "main")
    runs.keep(run, "configuration", {"x": 1})
    runs.keep(run, "configuration", {"x": 2})
    assert runs.get(run).name == "main"
    assert runs.kept(run, "configuration") == {"x": 2}


def test_rows_can_be_left_halfway_and_forgotten(runs: Runs, place: Place) -> None:
    run, other = runs.start("eval", {}), runs.start("eval", {}, scope="tenant")
    for i in range(300):
        runs.append(run, RunRow(i, f"{i:03}", "done", {}), sources=["doc"] if i else [])
    runs.append(other, RunRow(0, "a", "done", {}))
    runs.flush()
    rows = runs.rows(run)
    assert next(rows).id == "000"
    rows.close()  # type: ignore[attr-defined]
    assert forget_at(place, source="doc")["rows"] == 299
    assert [row.id for row in runs.rows(run)] == ["000"]
    assert forget_at(place, scope="tenant")["rows"] == 1
    assert [one.id for one in runs.list()] == [run]


def test_work_that_fails_is_undone_alone(runs: Runs) -> None:
    run = runs.start("eval", {})
    runs.append(run, RunRow(0, "a", "done", {}))
    runs.append(run, RunRow(None, "broken", "done", {}))  # type: ignore[arg-type]
    runs.append(run, RunRow(2, "c", "done", {}))
    with pytest.raises(StoreError):
        runs.flush()
    assert [r.id for r in runs.rows(run)] == ["a", "c"]
