"""Rules 8 and 9: what is queued goes in one carry; what is remembered, and where."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from flow_fakes import FakeChat, FakeEmbed, FakeFetch, FakeSearch, ask

from ragwright.core import FlowError, RagwrightError
from ragwright.flow import (
    Chat,
    Embed,
    Fetch,
    Flow,
    Replies,
    Runner,
    Search,
    SearchReply,
    embed,
    fetch,
    gather,
    search_keyword,
)


def find(text: str, snapshot: str = "s") -> Flow[str]:
    found = yield from search_keyword(snapshot, text, 1)
    return found[0][0]


def test_requests_queued_at_one_moment_are_one_carry() -> None:
    handler = FakeSearch()
    with Runner({Search: handler}) as runner:
        found = runner.run(gather([find(str(i)) for i in range(50)]))
    assert found == [f"chunk of {i}" for i in range(50)]
    assert [len(b) for b in handler.batches] == [50]


def test_a_batch_is_never_larger_than_the_handler_takes() -> None:
    handler = FakeSearch()
    handler.max_batch = 16
    with Runner({Search: handler}) as runner:
        assert len(list(runner.map(find(str(i)) for i in range(100)))) == 100
    assert max(len(b) for b in handler.batches) <= 16
    assert sum(len(b) for b in handler.batches) == 100


def test_what_arrives_while_a_batch_is_under_way_is_the_next_batch() -> None:
    handler = FakeSearch(work=lambda: time.sleep(0.03))
    with Runner({Search: handler}) as runner:
        list(runner.map((find(str(i)) for i in range(60)), limit=60))
    assert len(handler.batches) <= 4


def test_batches_leave_the_loop_free() -> None:
    threads: set[int] = set()

    def work() -> None:
        threads.add(threading.get_ident())
        assert other_is_done.wait(30)

    other_is_done = threading.Event()
    handler = FakeSearch(work=work)
    other = FakeChat()
    with Runner({Search: handler, Chat: other}) as runner:
        loop_thread: list[int] = []

        def mark() -> Flow[str]:
            loop_thread.append(threading.get_ident())
            return (yield from ask("other"))

        results = runner.outcomes([mark(), find("slow")])
        assert next(results).state == "done"
        other_is_done.set()
        assert next(results).state == "done"
    assert threads.isdisjoint(loop_thread)


def test_one_bad_request_of_a_batch_does_not_fail_the_others() -> None:
    handler = FakeSearch(bad="bad")
    with Runner({Search: handler}) as runner:
        found = runner.run(gather([find("a"), find("bad"), find("c")], settle=True))
    assert found[0] == "chunk of a"
    assert isinstance(found[1], ValueError)
    assert found[2] == "chunk of c"


class Rude(FakeSearch):
    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        raise self.kind

    kind: type[BaseException] = SystemExit


class Short(FakeSearch):
    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        return []


class Unsure(FakeSearch):
    def together(self, requests: Sequence[Search]) -> int:
        raise RuntimeError("cannot tell")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, StopIteration])
def test_a_handler_that_breaks_leaves_nobody_waiting(kind: type[BaseException]) -> None:
    rude = Rude()
    rude.kind = kind
    with Runner({Search: rude, Chat: FakeChat()}) as runner:
        found = runner.run(gather([find("a"), find("b")], settle=True))
        assert all(isinstance(e, FlowError) for e in found)
        assert runner.run(ask("still here")) == "re: still here"


def test_a_handler_that_loses_replies_or_cannot_tell_is_an_error() -> None:
    with Runner({Search: Short()}) as runner, pytest.raises(FlowError, match="0 replies"):
        runner.run(find("a"))
    with Runner({Search: Unsure()}) as runner, pytest.raises(RuntimeError, match="cannot tell"):
        runner.run(find("a"))


# -- rule 9 --------------------------------------------------------------------------------


def test_searches_are_remembered_by_snapshot_and_never_stored(tmp_path: Path) -> None:
    handler = FakeSearch()
    replies = Replies(tmp_path / "replies.db")
    with Runner({Search: handler}, replies=replies) as runner:
        assert runner.run(find("a")) == runner.run(find("a"))
        assert handler.batches == [["a"]]
        runner.run(find("a", snapshot="newer"))
        assert handler.batches == [["a"], ["a"]]
    assert replies.statistics() == []
    replies.close()


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
    assert roles.count("query") == 1
    assert roles.count("passage") == 4


def test_a_page_is_fetched_each_time_and_never_stored(tmp_path: Path) -> None:
    def page() -> Flow[str]:
        return (yield from fetch("https://example.org/")).body.decode()

    handler = FakeFetch()
    replies = Replies(tmp_path / "replies.db")
    with Runner({Fetch: handler}, replies=replies) as runner:
        assert runner.run(page()) == "page v1"
        handler.version = 2
        assert runner.run(page()) == "page v2"
    assert replies.statistics() == []
    replies.close()
