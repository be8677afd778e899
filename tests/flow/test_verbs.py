"""Rules 1 to 3 and 8: verbs, gathers, errors at the yield, shared calls, batches, work aside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from flow_fakes import ONCE, FakeChat, FakeSearch, ask, prompt, until, user

from ragwright.core import (
    FlowError,
    GatherError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
    RagwrightError,
    UnhandledRequestError,
)
from ragwright.flow import (
    Chat,
    ChatReply,
    CompleteReply,
    Flow,
    Runner,
    Search,
    SearchReply,
    SendHandler,
    TraceEntry,
    chat,
    gather,
    run_in_pool,
    search_keyword,
)


def picky(request: Chat, _n: int) -> str | Exception:
    text = prompt(request)
    return ModelRefusedError(f"no {text}") if "bad" in text else f"re: {text}"


def test_a_verb_refuses_a_reply_of_the_wrong_kind_and_a_request_without_a_handler() -> None:
    class Wrong(SendHandler[Chat, Any]):
        async def send(self, request: Chat, on_delta: object = None) -> Any:
            return CompleteReply("not a chat")

    with Runner({Chat: Wrong()}) as runner:
        with pytest.raises(FlowError, match="CompleteReply"):
            runner.run(ask("a"))
        with pytest.raises(UnhandledRequestError, match="Search"):
            runner.run(search_keyword("s", "q", 3))


def test_verbs_leave_out_parameters_that_are_not_set() -> None:
    step = next(chat("m", user("a"), {"temperature": 0, "stop": ["x"], "seed": None}))
    assert isinstance(step, Chat)
    assert step.params == (("stop", ("x",)), ("temperature", 0))


# -- gather --------------------------------------------------------------------------------


def test_gather_keeps_the_order_whatever_ends_first() -> None:
    uneven = lambda r: asyncio.sleep(0.03 - 0.01 * int(prompt(r)))  # noqa: E731
    handler = FakeChat(lambda r, n: prompt(r), before=uneven)
    with Runner({Chat: handler}) as runner:
        assert runner.run(gather([ask("0"), ask("1"), ask("2")])) == ["0", "1", "2"]
        assert runner.run(gather([])) == []
    assert handler.asked == ["2", "1", "0"]


def test_a_gather_that_fails_carries_every_outcome_after_all_have_settled() -> None:
    def slow(text: str) -> Flow[str]:
        yield from ask(f"{text} once")
        return (yield from ask(text))

    def broken() -> Iterator[Flow[str]]:
        yield ask("a")
        raise ValueError("broken list")

    with Runner({Chat: FakeChat(picky, latency=0.01)}) as runner:
        with pytest.raises(GatherError) as caught:
            runner.run(gather([ask("bad 1"), slow("fine"), ask("bad 2")]))
        first, second, third = caught.value.outcomes
        assert isinstance(first, ModelRefusedError)
        assert isinstance(third, ModelRefusedError)
        assert second == "re: fine"  # went on after its sibling had failed
        assert len(caught.value.errors) == 2
        with pytest.raises(GatherError, match="broken") as caught:
            runner.run(gather(broken()))
        assert caught.value.outcomes[0] == "re: a"


def test_errors_stand_in_their_places_where_a_gather_settles_and_in_the_trace() -> None:
    trace: list[TraceEntry] = []
    with Runner({Chat: FakeChat(picky)}) as runner:
        found = runner.run(gather([ask("a"), ask("bad"), ask("c")], settle=True), trace=trace)
    assert (found[0], found[2]) == ("re: a", "re: c")
    assert isinstance(found[1], ModelRefusedError)
    told = {prompt(e.request): (e.reply, e.error) for e in trace if isinstance(e.request, Chat)}
    assert set(told) == {"a", "bad", "c"}
    assert told["a"][0] is not None
    assert isinstance(told["bad"][1], ModelRefusedError)


# -- errors --------------------------------------------------------------------------------


def test_a_failed_request_is_thrown_at_the_yield_and_can_be_caught() -> None:
    def careful() -> Flow[str]:
        try:
            return (yield from ask("bad"))
        except ModelRefusedError as error:
            return (yield from ask(f"instead of {error.what}"))

    with Runner({Chat: FakeChat(lambda r, n: picky(r, n) if n == 1 else "fine")}) as runner:
        assert runner.run(careful()) == "fine"
    with Runner({Chat: FakeChat(lambda r, n: ZeroDivisionError("bug"))}) as runner:
        with pytest.raises(ZeroDivisionError, match="bug"):
            runner.run(ask("a"))
        assert runner.run(gather([], settle=True)) == []  # and the runner goes on


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_flow_that_tries_to_end_the_program_fails_alone(kind: type[BaseException]) -> None:
    def rude() -> Flow[str]:
        yield from ask("a")
        raise kind

    with Runner({Chat: FakeChat()}) as runner:
        states = [o.state for o in runner.outcomes([ask("x"), rude(), ask("y")])]
        assert states == ["done", "failed", "done"]
        assert runner.run(ask("z")) == "re: z"


def test_a_client_that_cancels_itself_is_an_error_and_not_a_stop() -> None:
    odd = FakeChat(lambda r, n: asyncio.CancelledError() if prompt(r) == "odd" else "fine")
    with Runner({Chat: odd}, retry=ONCE) as runner:
        found = list(runner.outcomes([ask("a"), ask("odd"), ask("b")]))
    assert [o.state for o in found] == ["done", "failed", "done"]
    assert isinstance(found[1].error, ModelUnavailableError)


# -- calls that flows share ----------------------------------------------------------------


def test_a_chat_asked_for_many_times_at_once_is_one_call_and_an_error_for_each() -> None:
    handler = FakeChat(picky, latency=0.02)
    with Runner({Chat: handler}) as runner:
        assert runner.run(gather([ask("a") for _ in range(10)])) == ["re: a"] * 10
        found = runner.run(gather([ask("bad") for _ in range(3)], settle=True))
    assert handler.asked == ["a", "bad"]
    assert len({id(e) for e in found}) == 3
    assert {str(e) for e in found} == {"no bad"}


def test_a_search_is_never_answered_from_what_another_scope_found() -> None:
    search = FakeSearch()
    with Runner({Search: search}) as runner:
        for scope in ("one", "two", "one"):
            runner.run(search_keyword("s", "text", 1), scope=scope)
    assert search.batches == [["text"], ["text"]]


def test_a_newcomer_joins_the_call_that_took_the_place_of_one_given_up() -> None:
    """The end of a call that was given up must not take its successor off the list."""
    gate, go, gone = threading.Event(), threading.Event(), threading.Event()
    handler = FakeChat(gate=gate)

    class Slow(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            try:
                return await handler.send(request, on_delta)
            except asyncio.CancelledError:
                await until(go.is_set)  # takes its time to go
                gone.set()
                raise

    async def scenario(runner: Runner) -> list[str]:
        first = asyncio.ensure_future(runner.arun(ask("a")))
        await until(lambda: handler.asked)
        first.cancel()
        await until(lambda: handler.cancelled)
        second = asyncio.ensure_future(runner.arun(ask("a")))
        await until(lambda: len(handler.asked) == 2)
        go.set()
        await until(gone.is_set)
        third = asyncio.ensure_future(runner.arun(ask("a")))
        await asyncio.sleep(0.05)
        gate.set()
        return [await second, await third]

    with Runner({Chat: Slow()}) as runner:
        assert asyncio.run(scenario(runner)) == ["re: a", "re: a"]
    assert len(handler.asked) == 2


# -- batches -------------------------------------------------------------------------------


def find(text: str) -> Flow[str]:
    return (yield from search_keyword("s", text, 1))[0][0]


@pytest.mark.parametrize(("most", "batches"), [(None, [50]), (16, [16, 16, 16, 2])])
def test_requests_of_one_moment_are_one_batch_or_few(most: int | None, batches: list[int]) -> None:
    handler = FakeSearch()
    handler.max_batch = most or handler.max_batch
    with Runner({Search: handler}) as runner:
        found = runner.run(gather([find(str(i)) for i in range(50)]))
    assert found == [f"chunk of {i}" for i in range(50)]
    assert [len(b) for b in handler.batches] == batches


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


# -- work aside ----------------------------------------------------------------------------


def test_work_aside_raises_at_its_yield_and_is_bound_by_the_flows_time_limit() -> None:
    def fails() -> Flow[str]:
        try:
            return (yield from run_in_pool(lambda: str(1 / 0)))
        except ZeroDivisionError as error:
            return f"caught {error}"

    release = threading.Event()
    with Runner({}) as runner:
        assert runner.run(fails()) == "caught division by zero"
        forecast = runner.forecast([fails])  # free local work is real in a dry run
        assert (forecast.calls.high, forecast.uncertain) == (0, 0)
        with pytest.raises(ModelTimeoutError, match="time limit"):
            runner.run(run_in_pool(lambda: release.wait(10)), timeout=0.05)
        release.set()
