"""Rule 8: what is queued goes in one batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from flow_fakes import FakeChat, FakeSearch, ask

from ragwright.core import FlowError, RagwrightError
from ragwright.flow import Chat, Flow, Runner, Search, SearchReply, gather, search_keyword


def find(text: str) -> Flow[str]:
    return (yield from search_keyword("s", text, 1))[0][0]


@pytest.mark.parametrize(("most", "batches"), [(None, [50]), (16, [16, 16, 16, 2])])
def test_requests_queued_at_one_moment_are_one_batch_or_as_few_as_the_handler_takes(
    most: int | None, batches: list[int]
) -> None:
    handler = FakeSearch()
    handler.max_batch = most or handler.max_batch
    with Runner({Search: handler}) as runner:
        found = runner.run(gather([find(str(i)) for i in range(50)]))
    assert found == [f"chunk of {i}" for i in range(50)]
    assert [len(b) for b in handler.batches] == batches


def test_what_arrives_while_a_batch_is_under_way_is_the_next_batch() -> None:
    given, gate = list[str](), threading.Event()

    def flow(text: str) -> Flow[str]:
        given.append(text)
        if len(given) == 60:
            gate.set()
        return (yield from find(text))

    handler = FakeSearch(work=gate.wait)
    with Runner({Search: handler}) as runner:
        list(runner.map((flow(str(i)) for i in range(60)), limit=60))
    assert len(handler.batches) <= 4


def test_batches_leave_the_loop_free() -> None:
    threads, loop_thread = set[int](), list[int]()
    other_is_done = threading.Event()

    def work() -> None:
        threads.add(threading.get_ident())
        assert other_is_done.wait(30)

    def mark() -> Flow[str]:
        loop_thread.append(threading.get_ident())
        return (yield from ask("other"))

    with Runner({Search: FakeSearch(work=work), Chat: FakeChat()}) as runner:
        results = runner.outcomes([mark(), find("slow")])
        assert next(results).state == "done"
        other_is_done.set()
        assert next(results).state == "done"
    assert threads.isdisjoint(loop_thread)


def test_one_bad_request_of_a_batch_does_not_fail_the_others() -> None:
    with Runner({Search: FakeSearch(bad="bad")}) as runner:
        found = runner.run(gather([find("a"), find("bad"), find("c")], settle=True))
    assert (found[0], found[2]) == ("chunk of a", "chunk of c")
    assert isinstance(found[1], ValueError)


class Rude(FakeSearch):
    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        raise self.kind


class Short(FakeSearch):
    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        return []


class Unsure(FakeSearch):
    def together(self, requests: Sequence[Search]) -> int:
        raise RuntimeError("cannot tell")


@pytest.mark.parametrize(
    ("handler", "kind", "words"),
    [
        (Rude(SystemExit), FlowError, ""),
        (Rude(KeyboardInterrupt), FlowError, ""),
        (Rude(StopIteration), FlowError, ""),
        (Short(), FlowError, "0 replies"),
        (Unsure(), RuntimeError, "cannot tell"),
    ],
)
def test_a_handler_that_breaks_is_an_error_and_leaves_nobody_waiting(
    handler: FakeSearch, kind: type[Exception], words: str
) -> None:
    with Runner({Search: handler, Chat: FakeChat()}) as runner:
        found = runner.run(gather([find("a"), find("b")], settle=True))
        assert all(isinstance(error, kind) and words in str(error) for error in found)
        assert runner.run(ask("still here")) == "re: still here"
