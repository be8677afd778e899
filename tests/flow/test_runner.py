"""Rules 4, 5 and 7: the runner's own loop, lists of flows, closing, Ctrl-C, stops, time limits."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flow_fakes import (
    ONCE,
    FakeChat,
    ask,
    ask_all,
    limited,
    prompt,
    stubborn,
    until,
    user,
)
from waiting import wait_until, when

from ragwright.core import (
    BudgetStopped,
    FlowError,
    Interrupted,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitedError,
    StoppedError,
)
from ragwright.flow import (
    Chat,
    ChatReply,
    Flow,
    OnDelta,
    Replies,
    RetryPolicy,
    Runner,
    RunnerOptions,
    gather,
    send,
)

pytest_plugins = ["flow_stores"]

CTRL_C = (os.kill, os.getpid(), signal.SIGINT)


class Counted:
    def __init__(self, count: int, make: Callable[[str], Flow[str]] = ask) -> None:
        self.count, self.make, self.given = count, make, 0

    def __iter__(self) -> Iterator[Flow[str]]:
        for i in range(self.count):
            self.given += 1
            yield self.make(str(i))


# -- the loop ------------------------------------------------------------------------------


def test_flows_run_on_a_thread_of_the_runner_and_never_wait_for_themselves() -> None:
    seen: list[int] = []

    def where() -> Flow[None]:
        seen.append(threading.get_ident())
        yield from ask("a")
        seen.append(threading.get_ident())

    def nested() -> Flow[str]:
        yield from ask("a")
        return runner.run(ask("b"))

    with Runner({Chat: FakeChat()}) as runner:
        runner.run(where())
        runner.run(where())
        with pytest.raises(FlowError, match="own thread"):
            runner.run(nested())
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen


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


# -- closing -------------------------------------------------------------------------------


def test_closing_releases_every_handler_on_the_loop_those_picked_by_a_route_included() -> None:
    class Failing(FakeChat):
        async def aclose(self) -> None:
            raise OSError("cannot close")

    class Noting(FakeChat):
        async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
            loops.append(asyncio.get_running_loop())
            return await super().send(request, on_delta)

    loops: list[object] = []
    direct, failing, noting = FakeChat(), Failing(), Noting()
    with Runner({Chat: direct}) as runner:
        runner.run(ask("a"))
    assert direct.closed_on is not None
    runner = Runner({Chat: lambda r: failing if prompt(r) == "f" else noting})
    runner.run(gather([ask("f"), ask("n")]))
    before = {*threading.enumerate()}
    with pytest.raises(OSError, match="cannot close"):
        runner.close()
    assert noting.closed_on is loops[0]  # though another had failed to close
    assert before - {*threading.enumerate()}, "its thread has ended"
    runner.close()
    with pytest.raises(FlowError, match="closed"):
        runner.run(ask("b"))


def test_closing_while_a_run_is_under_way_stops_it_cleanly() -> None:
    handler = FakeChat(latency=0.2)
    runner = Runner({Chat: handler})
    when(lambda: handler.asked, runner.close)
    with pytest.raises(StoppedError, match="closed"):
        runner.run(ask_all("a", "b"))
    runner.close()


# -- lists of flows ------------------------------------------------------------------------


def test_map_is_lazy_ordered_and_bounded() -> None:
    flows = Counted(200)
    with Runner({Chat: FakeChat(latency=0.002)}, RunnerOptions(concurrency=4)) as runner:
        results = runner.map(flows, limit=5)
        assert next(results) == "re: 0"
        assert flows.given <= 5 * 4
        assert list(results) == [f"re: {i}" for i in range(1, 200)]


def test_flows_are_closed_when_nobody_reads_on_those_not_yet_open_too() -> None:
    log: list[str] = []
    flows = [ask(str(n)) for n in range(300)]
    with Runner({Chat: FakeChat(latency=0.02)}, RunnerOptions(concurrency=1)) as runner:
        outcomes = runner.outcomes(flows, limit=300)
        assert next(outcomes).value == "re: 0"
        outcomes.close()
    assert {inspect.getgeneratorstate(flow) for flow in flows} == {inspect.GEN_CLOSED}
    with Runner({Chat: FakeChat(latency=0.01)}) as runner:
        results = runner.outcomes([ask("x"), stubborn("a", log), stubborn("b", log)])
        assert next(results).state == "done"
        results.close()
        wait_until(lambda: len(log) == 2)
    assert log == ["closed", "closed"]


# -- Ctrl-C and stops ----------------------------------------------------------------------


def test_ctrl_c_in_run_and_map_is_a_keyboard_interrupt_whatever_ended_before() -> None:
    log: list[str] = []
    ended = ValueError("ended before, not yet read")
    handler = FakeChat(lambda r, n: ended if prompt(r) == "bad" else "fine", latency=0.02)
    with Runner({Chat: handler}) as runner:
        when(lambda: handler.asked, *CTRL_C)
        with pytest.raises(KeyboardInterrupt):
            runner.run(stubborn("a", log))
        assert log == ["closed"]
        when(lambda: len(handler.asked) > 10, *CTRL_C)
        with pytest.raises(KeyboardInterrupt):
            list(runner.map([stubborn("a", log), limited("bad"), stubborn("b", log)]))


SLOW_DOWN = RateLimitedError("slow down", retry_after=600)
DOWN = ModelUnavailableError("down")


@pytest.mark.parametrize(
    ("handler", "texts"),
    [
        pytest.param(FakeChat(lambda r, n: SLOW_DOWN), "abc", id="held back by Retry-After"),
        pytest.param(FakeChat(lambda r, n: DOWN, latency=0.15), "a", id="between attempts"),
    ],
)
def test_a_stop_neither_awaits_nor_repeats_waiting_calls(handler: FakeChat, texts: str) -> None:
    options = RunnerOptions(concurrency=1)
    with Runner({Chat: handler}, options, retry=RetryPolicy(base=600)) as runner:
        when(lambda: handler.asked, runner.interrupt)
        assert {o.state for o in runner.outcomes(map(ask, texts))} == {"skipped"}
    assert handler.asked == ["a"]


def test_no_flow_can_take_an_interrupt_for_a_failure() -> None:
    taken: list[Exception] = []

    def flow() -> Flow[str]:
        try:
            return (yield from ask("a"))
        except Exception as error:
            taken.append(error)
            return "failed"

    handler = FakeChat(latency=0.3)
    with Runner({Chat: handler}) as runner:
        when(lambda: handler.asked, runner.interrupt)
        with pytest.raises(Interrupted):
            list(runner.map([flow(), flow()]))
    assert not taken


def test_a_stop_gives_up_calls_that_take_longer_than_its_grace(replies: Replies) -> None:
    handler = FakeChat(latency=600)
    options = RunnerOptions(concurrency=2, grace=0.3)
    with Runner({Chat: handler}, options, replies=replies) as runner:
        when(lambda: len(handler.asked) == 2, runner.interrupt)
        assert {o.state for o in runner.outcomes([ask("a"), ask("b"), ask("c")])} == {"skipped"}
        assert sum(runner.progress.given_up.values()) == 2
        assert not sum(runner.progress.awaited.values())
        assert runner.progress.possibly_billed == 2
        handler.latency = 0.0
        assert runner.run(ask("a")) == "re: a"  # the claim of the call that was given up is free


def test_the_budget_waits_for_calls_in_flight_however_long() -> None:
    handler = FakeChat(latency=0.6)
    with Runner({Chat: handler}, RunnerOptions(grace=0.1)) as runner:
        when(lambda: handler.asked, runner.ask_to_stop, BudgetStopped("spent"))
        assert [o.state for o in runner.outcomes([ask("a")])] == ["skipped"]
        assert not runner.progress.given_up
        assert runner.progress.possibly_billed == 0


# -- time limits ---------------------------------------------------------------------------


def test_a_call_out_of_time_counts_as_possibly_billed_and_a_refused_one_costs_nothing() -> None:
    request = Chat("m", user("a"), (("max_tokens", 7),), timeout=0.03)
    handler = FakeChat(latency=1, price=1.0)
    with Runner({Chat: handler}, retry=ONCE) as runner:
        with pytest.raises(ModelTimeoutError):
            runner.run(send(request, ChatReply))
        assert (runner.budget.spent, runner.progress.possibly_billed) == (7, 1)  # its worst case
    with Runner({Chat: FakeChat(lambda r, n: DOWN, price=1.0)}, retry=ONCE) as runner:
        with pytest.raises(ModelUnavailableError):
            runner.run(ask("a"))
        assert (runner.budget.spent, runner.progress.possibly_billed) == (0, 0)


def test_a_flow_out_of_time_is_told_so_at_its_yield() -> None:
    log: list[str] = []

    def patient() -> Flow[str]:
        try:
            yield from ask_all("a", "b", "c")
        except ModelTimeoutError:
            log.append("too late")
            raise
        return "never"

    with Runner({Chat: FakeChat(latency=600)}) as runner:
        with pytest.raises(ModelTimeoutError, match="own time limit"):
            runner.run(patient(), timeout=0.3)
        states = [o.state for o in runner.outcomes([ask_all("d", "e", "f")], timeout=0.3)]
        assert states == ["failed"]
    assert log == ["too late"]


def test_the_deadline_is_passed_on_to_a_gather() -> None:
    handler = FakeChat(before=lambda r: asyncio.sleep(600 if prompt(r) == "b" else 0))
    flows: list[Flow[Any]] = [ask_all("a", "b", "c"), ask("d")]
    with Runner({Chat: handler}) as runner:
        found = runner.run(gather(flows, settle=True), timeout=1.0)
    assert isinstance(found[0], ModelTimeoutError)
    assert found[1] == "re: d"
    assert "c" not in handler.asked


def test_a_call_is_cancelled_only_when_no_other_flow_awaits_it() -> None:
    gate = threading.Event()
    handler = FakeChat(gate=gate)

    async def scenario(runner: Runner) -> None:
        patient = asyncio.ensure_future(runner.arun(ask("shared")))
        await until(lambda: handler.asked)
        for text in ("shared", "alone"):
            with pytest.raises(ModelTimeoutError):
                await runner.arun(ask(text), timeout=0.03)
        await until(lambda: handler.cancelled)
        gate.set()
        assert await patient == "re: shared"
        assert handler.cancelled == 1

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
        assert runner.progress.possibly_billed == 1
    assert handler.asked == ["shared", "alone"]
