"""Rules 1, 2, 3 and 7: verbs, gathers, errors at the yield, the runner's own loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from flow_fakes import FakeChat, FakeSearch, ask, prompt, user
from waiting import wait_until, when

from ragwright.core import (
    FlowError,
    GatherError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnhandledRequestError,
)
from ragwright.flow import (
    Chat,
    ChatReply,
    CompleteReply,
    Flow,
    OnDelta,
    RetryPolicy,
    Runner,
    RunnerOptions,
    Search,
    SendHandler,
    TraceEntry,
    chat,
    gather,
    run_in_pool,
    search_keyword,
)


def picky(request: Chat, _n: int) -> str | Exception:
    """Refuses what holds the word bad."""
    text = prompt(request)
    return ModelRefusedError(f"no {text}") if "bad" in text else f"re: {text}"


# -- rule 1 --------------------------------------------------------------------------------


def test_a_verb_refuses_a_reply_of_the_wrong_kind() -> None:
    class Wrong(SendHandler[Chat, Any]):
        async def send(self, request: Chat, on_delta: object = None) -> Any:
            return CompleteReply("not a chat")

    with Runner({Chat: Wrong()}) as runner, pytest.raises(FlowError, match="CompleteReply"):
        runner.run(ask("a"))


def test_a_request_nobody_carries_out_is_a_typed_error() -> None:
    with Runner({Chat: FakeChat()}) as runner, pytest.raises(UnhandledRequestError, match="Search"):
        runner.run(search_keyword("s", "q", 3))


# -- rule 2 --------------------------------------------------------------------------------


def test_gather_keeps_the_order_whatever_ends_first() -> None:
    def late(request: Chat, n: int) -> str:
        return prompt(request)

    class Uneven(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            await asyncio.sleep(0.03 - 0.01 * int(prompt(request)))
            return await super().send(request, on_delta)

    handler = Uneven(late)
    with Runner({Chat: handler}) as runner:
        assert runner.run(gather([ask("0"), ask("1"), ask("2")])) == ["0", "1", "2"]
    assert handler.asked == ["2", "1", "0"]


def test_gather_reads_its_iterable_only_as_flows_end() -> None:
    handler = FakeChat(latency=0.005)
    read = 0
    ahead: list[int] = []

    def children() -> Iterator[Flow[str]]:
        nonlocal read
        for i in range(40):
            read += 1
            ahead.append(read - len(handler.asked))
            yield ask(str(i))

    with Runner({Chat: handler}) as runner:
        runner.run(gather(children(), limit=3))
    assert handler.most_in_flight == 3
    assert max(ahead) <= 4  # the three open ones and the one being read


def test_a_gather_that_fails_carries_every_outcome_after_all_have_settled() -> None:
    handler = FakeChat(picky, latency=0.01)

    def slow(text: str) -> Flow[str]:
        yield from ask(f"{text} once")
        return (yield from ask(text))

    with Runner({Chat: handler}) as runner, pytest.raises(GatherError) as caught:
        runner.run(gather([ask("bad 1"), slow("fine"), ask("bad 2")]))
    first, second, third = caught.value.outcomes
    assert isinstance(first, ModelRefusedError)
    assert isinstance(third, ModelRefusedError)
    assert second == "re: fine"  # went on after its sibling had failed
    assert len(caught.value.errors) == 2


def test_gather_settle_returns_errors_in_their_places() -> None:
    with Runner({Chat: FakeChat(picky)}) as runner:
        found = runner.run(gather([ask("a"), ask("bad"), ask("c")], settle=True))
    assert found[0] == "re: a"
    assert isinstance(found[1], ModelRefusedError)
    assert found[2] == "re: c"


def test_an_iterable_that_breaks_fails_the_gather_after_its_flows() -> None:
    def children() -> Iterator[Flow[str]]:
        yield ask("a")
        raise ValueError("broken list")

    with Runner({Chat: FakeChat()}) as runner, pytest.raises(GatherError, match="broken") as caught:
        runner.run(gather(children()))
    assert caught.value.outcomes[0] == "re: a"


def test_an_empty_gather_is_an_empty_list() -> None:
    with Runner({Chat: FakeChat()}) as runner:
        assert runner.run(gather([])) == []


# -- rule 3 --------------------------------------------------------------------------------


def test_a_failed_request_is_thrown_at_the_yield_and_can_be_caught() -> None:
    def careful() -> Flow[str]:
        try:
            return (yield from ask("bad"))
        except ModelRefusedError as error:
            return (yield from ask(f"instead of {error.what}"))

    with Runner({Chat: FakeChat(lambda r, n: picky(r, n) if n == 1 else "fine")}) as runner:
        assert runner.run(careful()) == "fine"


def test_flows_that_share_a_failed_call_get_errors_of_their_own() -> None:
    handler = FakeChat(picky, latency=0.01)
    with Runner({Chat: handler}) as runner:
        found = runner.run(gather([ask("bad"), ask("bad"), ask("bad")], settle=True))
    assert handler.asked == ["bad"]
    assert len({id(e) for e in found}) == 3
    assert {str(e) for e in found} == {"no bad"}


def test_an_error_of_the_handler_itself_reaches_the_flow_as_it_is() -> None:
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
    handler = FakeChat(latency=0.0)

    class Odd(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            if prompt(request) == "odd":
                raise asyncio.CancelledError
            return await handler.send(request, on_delta)

    with Runner({Chat: Odd()}, retry=RetryPolicy(attempts=1)) as runner:
        found = list(runner.outcomes([ask("a"), ask("odd"), ask("b")]))
    assert [o.state for o in found] == ["done", "failed", "done"]
    assert isinstance(found[1].error, ModelUnavailableError)


def test_a_trace_tells_every_request_of_a_flow() -> None:
    trace: list[TraceEntry] = []
    with Runner({Chat: FakeChat(picky)}) as runner:
        runner.run(gather([ask("a"), ask("bad")], settle=True), trace=trace)
    told = {prompt(e.request): (e.reply, e.error) for e in trace if isinstance(e.request, Chat)}
    assert set(told) == {"a", "bad"}
    assert told["a"][0] is not None
    assert isinstance(told["bad"][1], ModelRefusedError)


# -- rule 7 --------------------------------------------------------------------------------


def test_flows_run_on_a_thread_of_the_runner() -> None:
    seen: list[int] = []

    def where() -> Flow[None]:
        seen.append(threading.get_ident())
        yield from ask("a")
        seen.append(threading.get_ident())

    with Runner({Chat: FakeChat()}) as runner:
        runner.run(where())
        runner.run(where())
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen


def test_run_from_the_runners_own_thread_raises_at_once() -> None:
    with Runner({Chat: FakeChat()}) as runner:

        def nested() -> Flow[str]:
            yield from ask("a")
            return runner.run(ask("b"))

        with pytest.raises(FlowError, match="own thread"):
            runner.run(nested())


def test_run_and_arun_work_while_another_loop_is_running() -> None:
    async def server() -> list[str]:
        with Runner({Chat: FakeChat(latency=0.01)}) as runner:
            blocking = runner.run(ask("a"))
            one, two = await asyncio.gather(runner.arun(ask("b")), runner.arun(ask("c")))
            return [blocking, one, two]

    assert asyncio.run(server()) == ["re: a", "re: b", "re: c"]


def test_cancelling_arun_closes_the_flow() -> None:
    handler = FakeChat(latency=5)
    closed = threading.Event()

    def waiting() -> Flow[str]:
        try:
            return (yield from ask("a"))
        except GeneratorExit:
            closed.set()
            raise

    async def server(runner: Runner) -> None:
        task = asyncio.ensure_future(runner.arun(waiting()))
        while not handler.asked:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Runner({Chat: handler}) as runner:
        asyncio.run(server(runner))
        assert closed.wait(30)
        assert runner.run(gather([])) == []
    assert handler.cancelled == 1  # nobody else wanted it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_runner_refuses_to_work_after_a_fork() -> None:
    with Runner({Chat: FakeChat()}) as runner:
        runner.run(ask("a"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                runner.run(ask("b"))
            except FlowError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7


def test_closing_releases_every_handler_on_the_loop_those_picked_by_a_route_included() -> None:
    direct, picked = FakeChat(), FakeChat()
    loops: list[object] = []

    class Failing(FakeChat):
        async def aclose(self) -> None:
            raise OSError("cannot close")

    class Noting(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            loops.append(asyncio.get_running_loop())
            return await super().send(request, on_delta)

    noting = Noting()
    for routes in ({Chat: direct}, {Chat: lambda request: picked}):
        with Runner(routes) as runner:
            runner.run(ask("a"))
    assert direct.closed_on is not None
    assert picked.closed_on is not None
    failing = Failing()
    runner = Runner({Chat: lambda r: failing if prompt(r) == "f" else noting})
    runner.run(gather([ask("f"), ask("n")]))
    with pytest.raises(OSError, match="cannot close"):
        runner.close()
    assert noting.closed_on is loops[0]  # though another had failed to close
    assert not [t for t in threading.enumerate() if t is runner._thread]


def test_closing_twice_is_harmless_and_a_closed_runner_says_so() -> None:
    runner = Runner({Chat: FakeChat()})
    runner.run(ask("a"))
    runner.close()
    runner.close()
    with pytest.raises(FlowError, match="closed"):
        runner.run(ask("b"))


def test_map_is_lazy_ordered_and_bounded() -> None:
    handler = FakeChat(latency=0.002)
    given = 0

    def flows() -> Iterator[Flow[str]]:
        nonlocal given
        for i in range(200):
            given += 1
            yield ask(str(i))

    with Runner({Chat: handler}, RunnerOptions(concurrency=4)) as runner:
        results = runner.map(flows(), limit=5)
        assert next(results) == "re: 0"
        assert given <= 5 * 4
        assert list(results) == [f"re: {i}" for i in range(1, 200)]


@pytest.mark.slow
def test_results_that_wait_for_a_slow_elder_are_bounded() -> None:
    release = threading.Event()
    given = 0

    def flows() -> Iterator[Flow[str]]:
        nonlocal given
        for i in range(200):
            given += 1
            yield ask(str(i))

    class FirstIsSlow(FakeChat):
        async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
            while prompt(request) == "0" and not release.is_set():
                await asyncio.sleep(0.01)
            return await super().send(request, on_delta)

    with Runner({Chat: FirstIsSlow()}) as runner:
        when(lambda: given >= 5, release.set)
        outcomes = runner.outcomes(flows(), limit=5)
        next(outcomes)
        assert given < 50
        assert len(list(outcomes)) == 199


def test_a_search_is_never_answered_from_what_another_scope_found() -> None:
    search = FakeSearch()

    def found() -> Flow[object]:
        return (yield from search_keyword("s", "text", 1))

    with Runner({Search: search}) as runner:
        for scope in ("one", "two", "one"):
            runner.run(found(), scope=scope)
    assert search.batches == [["text"], ["text"]]


def test_flows_under_way_are_closed_when_the_list_of_flows_breaks() -> None:
    closed, gate = threading.Event(), threading.Event()
    handler = FakeChat(gate=gate)

    def waiting() -> Flow[str]:
        try:
            return (yield from ask("a"))
        finally:
            closed.set()

    def flows() -> Iterator[Flow[str]]:
        yield waiting()
        wait_until(lambda: handler.asked)
        raise ValueError("the list broke")

    with Runner({Chat: handler}) as runner:
        with pytest.raises(ValueError, match="the list broke"):
            list(runner.map(flows()))
        assert closed.wait(30)
        gate.set()


def test_flows_not_yet_open_are_closed_when_nobody_reads_on() -> None:
    flows = [ask(str(n)) for n in range(300)]
    with Runner({Chat: FakeChat(latency=0.02)}, RunnerOptions(concurrency=1)) as runner:
        outcomes = runner.outcomes(flows, limit=300)
        assert next(outcomes).value == "re: 0"
        outcomes.close()
    assert {inspect.getgeneratorstate(flow) for flow in flows} == {inspect.GEN_CLOSED}


def test_one_flow_of_many_known_replies_does_not_keep_the_others_waiting() -> None:
    """Replies that need no waiting still let other flows in."""
    handler = FakeChat()
    seen: list[str] = []

    def long() -> Flow[None]:
        for _ in range(1000):
            yield from gather([])
        seen.append("long")

    def short() -> Flow[None]:
        yield from gather([])
        seen.append("short")

    with Runner({Chat: handler}) as runner:
        runner.run(gather([long(), short()]))  # both are open before either takes a step
    assert seen == ["short", "long"]


def test_a_chat_asked_for_twice_at_once_is_one_call() -> None:
    handler = FakeChat(latency=0.02)
    with Runner({Chat: handler}) as runner:
        assert runner.run(gather([ask("a")] + [ask("a") for _ in range(9)])) == ["re: a"] * 10
    assert handler.asked == ["a"]


def test_a_newcomer_joins_the_call_that_took_the_place_of_one_given_up() -> None:
    """The end of a call that was given up must not take its successor off the list."""
    gate, go, gone = threading.Event(), threading.Event(), threading.Event()
    handler = FakeChat(gate=gate)

    class Slow(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            try:
                return await handler.send(request, on_delta)
            except asyncio.CancelledError:
                while not go.is_set():  # takes its time to go
                    await asyncio.sleep(0.002)
                gone.set()
                raise

    async def scenario(runner: Runner) -> list[str]:
        first = asyncio.ensure_future(runner.arun(ask("a")))
        while len(handler.asked) < 1:
            await asyncio.sleep(0.002)
        first.cancel()
        while not handler.cancelled:
            await asyncio.sleep(0.002)
        second = asyncio.ensure_future(runner.arun(ask("a")))
        while len(handler.asked) < 2:
            await asyncio.sleep(0.002)
        go.set()
        while not gone.is_set():
            await asyncio.sleep(0.002)
        third = asyncio.ensure_future(runner.arun(ask("a")))
        await asyncio.sleep(0.05)
        gate.set()
        return [await second, await third]

    with Runner({Chat: Slow()}) as runner:
        assert asyncio.run(scenario(runner)) == ["re: a", "re: a"]
    assert len(handler.asked) == 2


def test_verbs_leave_out_parameters_that_are_not_set() -> None:
    step = next(chat("m", user("a"), {"temperature": 0, "stop": ["x"], "seed": None}))
    assert isinstance(step, Chat)
    assert step.params == (("stop", ("x",)), ("temperature", 0))


# -- work aside ----------------------------------------------------------------------------


def test_work_aside_leaves_the_loop_to_others() -> None:
    """While one flow's work takes its time, on a thread of the pool, others are answered."""
    begun, answered = threading.Event(), threading.Event()
    threads: list[str] = []

    def work() -> int:
        threads.append(threading.current_thread().name)
        begun.set()
        assert answered.wait(10)
        return 7

    def slow() -> Flow[int]:
        return (yield from run_in_pool(work))

    def quick() -> Flow[int]:
        yield from ask("a")
        answered.set()
        return 1

    with Runner({Chat: FakeChat(picky)}) as runner:
        assert list(runner.map([slow(), quick()])) == [7, 1]
    assert begun.is_set()
    assert threads[0].startswith("ragwright-batch")


def test_what_work_aside_raises_is_raised_at_its_yield() -> None:
    def fails() -> Flow[str]:
        try:
            return (yield from run_in_pool(lambda: str(1 / 0)))
        except ZeroDivisionError as error:
            return f"caught {error}"

    with Runner({}) as runner:
        assert runner.run(fails()) == "caught division by zero"
        forecast = runner.forecast([fails])  # free local work is real in a dry run
    assert (forecast.calls.high, forecast.uncertain) == (0, 0)


def test_work_aside_is_bound_by_the_flows_time_limit() -> None:
    release = threading.Event()

    def slow() -> Flow[bool]:
        return (yield from run_in_pool(lambda: release.wait(10)))

    with Runner({}) as runner:
        with pytest.raises(ModelTimeoutError, match="time limit"):
            runner.run(slow(), timeout=0.05)
        release.set()
