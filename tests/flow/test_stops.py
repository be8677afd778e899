"""Rules 4, 5 and 14: budget, Ctrl-C, time limits, prices."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_fakes import FakeChat, FakeSearch, ask, ask_all, prompt
from waiting import wait_until, when

from ragwright.core import (
    BudgetStopped,
    ConfigError,
    Interrupted,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitedError,
    StoppedError,
    Usage,
)
from ragwright.flow import (
    Budget,
    Chat,
    ChatReply,
    Flow,
    Message,
    OnDelta,
    Outcome,
    Replies,
    RetryPolicy,
    Runner,
    RunnerOptions,
    Search,
    chat,
    gather,
    search_keyword,
    send,
)

ONCE = RetryPolicy(attempts=1)


def limited(text: str, tokens: int = 10) -> Flow[str]:
    """A chat whose worst case is ``tokens`` completion tokens."""
    reply = yield from chat("m", [Message("user", text)], {"max_tokens": tokens})
    return reply.text


def stubborn(text: str, log: list[str]) -> Flow[str]:
    """Swallows every Exception; notes how it was closed."""
    try:
        while True:
            try:
                yield from limited(text)
            except Exception:
                log.append("scored as an error")
            text += "+"
    except GeneratorExit:
        log.append("closed")
        raise


# -- budget --------------------------------------------------------------------------------


def test_a_budget_stops_flows_that_catch_every_exception() -> None:
    log: list[str] = []
    handler = FakeChat(price=1.0)
    with Runner({Chat: handler}, budget=Budget(35)) as runner:
        outcomes = list(runner.outcomes([stubborn("a", log)]))
        assert runner.budget.spent == 30
    assert [o.state for o in outcomes] == ["skipped"]
    assert isinstance(outcomes[0].error, BudgetStopped)
    assert log == ["closed"]
    assert len(handler.asked) == 3


def test_a_flow_that_refuses_to_close_is_skipped_all_the_same() -> None:
    def clinging() -> Flow[str]:
        try:
            yield from ask_all("a", "b", "c", "d")
        finally:
            yield from limited("one more")
        return "never"

    handler = FakeChat(price=1.0)
    options = RunnerOptions(longest_reply=10)
    with Runner({Chat: handler}, options, budget=Budget(25)) as runner:
        outcomes = list(runner.outcomes([clinging()]))
    assert outcomes[0].state == "skipped"
    assert "one more" not in handler.asked


def test_two_calls_that_together_exceed_the_budget_are_not_both_in_flight() -> None:
    """Both may cost 10 of 15; each costs 2: one after the other both fit."""
    handler = FakeChat(lambda r, n: ChatReply("x", Usage(1, 1, 2)), latency=0.02, price=1.0)
    with Runner({Chat: handler}, budget=Budget(15)) as runner:
        states = [o.state for o in runner.outcomes([limited("a"), limited("b")])]
        assert states == ["done", "done"]
        assert runner.budget.spent == 4
    assert handler.most_in_flight == 1


def test_a_call_given_up_while_waiting_for_money_gives_nothing_back_it_did_not_hold() -> None:
    gate = threading.Event()
    handler = FakeChat(price=1.0, gate=gate)

    async def scenario(runner: Runner) -> None:
        first = asyncio.ensure_future(runner.arun(limited("a")))
        while not handler.asked:
            await asyncio.sleep(0.005)
        waiting = asyncio.ensure_future(runner.arun(limited("b")))
        await asyncio.sleep(0.03)
        waiting.cancel()
        await asyncio.wait([waiting])
        third = asyncio.ensure_future(runner.arun(limited("c")))
        await asyncio.sleep(0.03)
        assert handler.in_flight == 1  # the first still holds the money
        gate.set()
        await asyncio.gather(first, third, return_exceptions=True)

    with Runner({Chat: handler}, budget=Budget(15)) as runner:
        asyncio.run(scenario(runner))
    assert handler.asked == ["a"]


def test_after_a_budget_stop_replies_in_flight_are_kept_and_nothing_more_is_sent(
    tmp_path: Path,
) -> None:
    handler = FakeChat(latency=0.05, price=1.0)
    replies = Replies(tmp_path / "replies.db")
    options = RunnerOptions(concurrency=4)
    with Runner({Chat: handler}, options, budget=Budget(45), replies=replies) as runner:
        outcomes = list(runner.outcomes(limited(str(i)) for i in range(50)))
        sent = len(handler.asked)
        assert runner.budget.spent <= 45
    assert sent == len(handler.asked) == 4
    assert all(o.state in {"done", "skipped"} for o in outcomes)
    assert sum(count for _, _, count, *_ in replies.statistics()) == sent
    replies.close()
    replies = Replies(tmp_path / "replies.db")
    with Runner({Chat: handler}, RunnerOptions(), replies=replies) as runner:
        assert all(o.state == "done" for o in runner.outcomes(limited(str(i)) for i in range(8)))
    replies.close()
    assert len(handler.asked) == 8  # the four kept ones were not asked again


def test_a_budget_without_a_price_refuses_before_the_first_call() -> None:
    handler = FakeChat(price=None)
    handler.costs = True
    with Runner({Chat: handler}, budget=Budget(1)) as runner:
        with pytest.raises(ConfigError, match="price"):
            runner.run(ask("a"))
        outcomes = list(runner.outcomes([ask("a"), ask("b")]))
        assert {o.state for o in outcomes} == {"skipped"}
    assert handler.asked == []


def test_a_stop_reaches_flows_inside_gathers() -> None:
    log: list[str] = []
    handler = FakeChat(price=1.0)
    with Runner({Chat: handler}, budget=Budget(25)) as runner:
        flows = [gather([stubborn("a", log), gather([stubborn("b", log)])], settle=True)]
        outcomes: list[Outcome[Any]] = list(runner.outcomes(flows))
    assert [o.state for o in outcomes] == ["skipped"]
    assert isinstance(outcomes[0].error, BudgetStopped)
    assert log == ["closed", "closed"]


def test_arun_can_be_used_again_after_a_stop() -> None:
    async def scenario(runner: Runner) -> str:
        with pytest.raises(BudgetStopped):
            await runner.arun(limited("dear", 100))
        return await runner.arun(limited("cheap", 1))

    with Runner({Chat: FakeChat(price=1.0)}, budget=Budget(20)) as runner:
        assert asyncio.run(scenario(runner)) == "re: cheap"


def test_flows_stopped_together_do_not_share_one_error() -> None:
    def dear(text: str) -> Flow[str]:
        yield from limited(f"cheap {text}", 1)
        return (yield from limited(text, 100))

    handler = FakeChat(lambda r, n: ChatReply("x", Usage(1, 1, 1)), latency=0.05, price=1.0)
    with Runner({Chat: handler}, budget=Budget(5)) as runner:
        outcomes = list(runner.outcomes([dear("a"), dear("b")]))
    assert [o.state for o in outcomes] == ["skipped", "skipped"]
    assert outcomes[0].error is not outcomes[1].error


# -- Ctrl-C --------------------------------------------------------------------------------


CTRL_C = (os.kill, os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_skips_what_is_open_keeps_what_is_in_flight_and_is_raised_last(
    tmp_path: Path,
) -> None:
    log: list[str] = []
    gate = threading.Event()
    handler = FakeChat(gate=gate)
    replies = Replies(tmp_path / "replies.db")
    seen: list[Outcome[str]] = []
    given = 0

    def flows() -> Iterator[Flow[str]]:
        nonlocal given
        for i in range(100):
            given += 1
            yield stubborn(str(i), log)

    with Runner({Chat: handler}, RunnerOptions(concurrency=3), replies=replies) as runner:
        when(lambda: len(handler.asked) == 3 and given >= 10, *CTRL_C)
        when(lambda: log, gate.set)  # the flows are closed: the stop is known
        with pytest.raises(KeyboardInterrupt):
            seen.extend(runner.outcomes(flows(), limit=10))
        assert len(seen) == given
        assert {o.state for o in seen} == {"skipped"}
        assert all(isinstance(o.error, Interrupted) for o in seen)
        assert len(handler.asked) == 3
        assert log == ["closed"] * 10
        assert runner.run(ask("0")) == "re: 0"  # the runner lives on, and "0" was kept
    assert sum(count for _, _, count, *_ in replies.statistics()) >= 3
    replies.close()


def test_ctrl_c_in_run_is_a_keyboard_interrupt_and_closes_the_flow() -> None:
    log: list[str] = []
    handler = FakeChat(latency=0.2)
    with Runner({Chat: handler}) as runner:
        when(lambda: handler.asked, *CTRL_C)
        with pytest.raises(KeyboardInterrupt):
            runner.run(stubborn("a", log))
    assert log == ["closed"]


def test_ctrl_c_in_map_is_a_keyboard_interrupt_whatever_ended_before() -> None:
    def failing(request: Chat, _n: int) -> str | Exception:
        if prompt(request) == "bad":
            return ValueError("ended before, not yet read")
        return "fine"

    def slow(text: str) -> Flow[str]:
        while True:
            yield from limited(text)
            text += "+"

    handler = FakeChat(failing, latency=0.02)
    with Runner({Chat: handler}) as runner:
        when(lambda: len(handler.asked) > 10, *CTRL_C)
        with pytest.raises(KeyboardInterrupt):
            list(runner.map([slow("a"), limited("bad"), slow("b")]))


def test_interrupt_from_another_thread_ends_map_as_interrupted() -> None:
    handler = FakeChat(latency=0.3)
    with Runner({Chat: handler}) as runner:
        when(lambda: handler.asked, runner.interrupt)
        with pytest.raises(Interrupted):
            list(runner.map([limited("a"), limited("b")]))


def test_a_stop_does_not_wait_for_calls_that_wait() -> None:
    """Held back by Retry-After, between attempts, or queued: none keeps Ctrl-C waiting."""
    handler = FakeChat(lambda r, n: RateLimitedError("slow down", retry_after=600))
    with Runner({Chat: handler}, RunnerOptions(concurrency=1)) as runner:
        when(lambda: handler.asked, runner.interrupt)
        states = {o.state for o in runner.outcomes([ask("a"), ask("b"), ask("c")])}
        assert states == {"skipped"}
    assert handler.asked == ["a"]


def test_a_call_in_flight_at_a_stop_is_not_tried_again() -> None:
    handler = FakeChat(lambda r, n: ModelUnavailableError("down"), latency=0.15)
    with Runner({Chat: handler}, retry=RetryPolicy(base=600)) as runner:
        when(lambda: handler.asked, runner.interrupt)
        # Nor is the pause before another try waited for.
        assert [o.state for o in runner.outcomes([ask("a")])] == ["skipped"]
    assert handler.asked == ["a"]


def test_no_flow_can_take_a_stop_for_a_failure() -> None:
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
        assert [outcome.state for outcome in runner.outcomes([flow()])] == ["skipped"]
    assert not taken


def test_a_stop_drops_batches_that_are_queued() -> None:
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert gate.wait(60)

    handler = FakeSearch(work=work)
    handler.max_batch = 1
    with Runner({Search: handler}) as runner:

        def stop() -> None:
            runner.ask_to_stop(Interrupted("stopped"))
            gate.set()

        when(begun.is_set, stop)
        outcomes = list(runner.outcomes(search_keyword("s", str(i), 1) for i in range(20)))
    assert {o.state for o in outcomes} == {"skipped"}
    assert len(handler.batches) == 1


def test_closing_while_a_run_is_under_way_stops_it_cleanly() -> None:
    handler = FakeChat(latency=0.2)
    runner = Runner({Chat: handler})
    when(lambda: handler.asked, runner.close)
    with pytest.raises(StoppedError, match="closed"):
        runner.run(ask_all("a", "b"))
    runner.close()


@pytest.mark.slow
def test_a_program_that_forgets_to_close_its_runner_ends() -> None:
    code = (
        "import asyncio\n"
        "from ragwright.flow import *\n"
        "class H(SendHandler):\n"
        "    async def send(self, request, on_delta=None):\n"
        "        return ChatReply('x')\n"
        "def f():\n"
        "    return (yield from chat('m', [Message('user', 'a')])).text\n"
        "r = Runner({Chat: H()})\n"
        "assert r.run(f()) == 'x'\n"
        "it = r.outcomes(f() for _ in range(500))\n"
        "next(it)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


def test_results_nobody_reads_any_more_do_not_keep_flows_open() -> None:
    log: list[str] = []
    handler = FakeChat(latency=0.01)
    with Runner({Chat: handler}) as runner:
        results = runner.outcomes([ask("x"), stubborn("a", log), stubborn("b", log)])
        assert next(results).state == "done"
        results.close()
        wait_until(lambda: len(log) == 2)
    assert log == ["closed", "closed"]


# -- time limits ---------------------------------------------------------------------------


def test_a_call_out_of_time_is_an_error_and_counts_as_possibly_billed() -> None:
    handler = FakeChat(latency=1, price=1.0)

    def hasty() -> Flow[str]:
        request = Chat("m", (Message("user", "a"),), (("max_tokens", 7),), timeout=0.03)
        return (yield from send(request, ChatReply)).text

    with Runner({Chat: handler}, retry=ONCE) as runner:
        with pytest.raises(ModelTimeoutError):
            runner.run(hasty())
        assert runner.budget.spent == 7  # its worst case
        assert runner.progress.possibly_billed == 1


def test_a_refused_connection_costs_nothing() -> None:
    handler = FakeChat(lambda r, n: ModelUnavailableError("down"), price=1.0)
    with Runner({Chat: handler}, retry=ONCE) as runner:
        with pytest.raises(ModelUnavailableError):
            runner.run(ask("a"))
        assert runner.budget.spent == 0
        assert runner.progress.possibly_billed == 0


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
    class Stuck(FakeChat):
        async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
            if prompt(request) == "b":
                await asyncio.sleep(600)
            return await super().send(request, on_delta)

    handler = Stuck()
    with Runner({Chat: handler}) as runner:
        found = runner.run(gather([ask_all("a", "b", "c"), ask("d")], settle=True), timeout=1.0)
    assert isinstance(found[0], ModelTimeoutError)
    assert found[1] == "re: d"
    assert "c" not in handler.asked


def test_a_call_is_cancelled_only_when_no_other_flow_awaits_it() -> None:
    gate = threading.Event()
    handler = FakeChat(gate=gate)

    async def scenario(runner: Runner) -> None:
        patient = asyncio.ensure_future(runner.arun(ask("shared")))
        while not handler.asked:
            await asyncio.sleep(0.005)
        with pytest.raises(ModelTimeoutError):
            await runner.arun(ask("shared"), timeout=0.03)
        with pytest.raises(ModelTimeoutError):
            await runner.arun(ask("alone"), timeout=0.03)
        while not handler.cancelled:
            await asyncio.sleep(0.005)
        gate.set()
        assert await patient == "re: shared"
        assert handler.cancelled == 1

    with Runner({Chat: handler}) as runner:
        asyncio.run(scenario(runner))
        assert runner.progress.possibly_billed == 1
    assert handler.asked == ["shared", "alone"]


def test_the_time_limit_is_no_part_of_the_key(tmp_path: Path) -> None:
    handler = FakeChat()
    replies = Replies(tmp_path / "replies.db")

    def timed(seconds: float) -> Flow[str]:
        request = Chat("m", (Message("user", "a"),), timeout=seconds)
        return (yield from send(request, ChatReply)).text

    with Runner({Chat: handler}, replies=replies) as runner:
        assert runner.run(timed(5)) == runner.run(timed(6))
    replies.close()
    assert [prompt(Chat("m", (Message("user", a),))) for a in handler.asked] == ["a"]


def test_a_stop_gives_up_calls_that_take_longer_than_its_grace(tmp_path: Path) -> None:
    handler = FakeChat(latency=600)
    replies = Replies(tmp_path / "replies.db")
    options = RunnerOptions(concurrency=2, grace=0.3)
    with Runner({Chat: handler}, options, replies=replies) as runner:
        when(lambda: len(handler.asked) == 2, runner.interrupt)
        assert {o.state for o in runner.outcomes([ask("a"), ask("b"), ask("c")])} == {"skipped"}
        assert sum(runner.progress.given_up.values()) == 2
        assert not sum(runner.progress.awaited.values())
        assert runner.progress.possibly_billed == 2
        handler.latency = 0.0
        assert runner.run(ask("a")) == "re: a"  # the claim of the call that was given up is free
    replies.close()


def test_the_budget_waits_for_calls_in_flight_however_long() -> None:
    handler = FakeChat(latency=0.6)
    with Runner({Chat: handler}, RunnerOptions(grace=0.1)) as runner:
        when(lambda: handler.asked, runner.ask_to_stop, BudgetStopped("spent"))
        assert [o.state for o in runner.outcomes([ask("a")])] == ["skipped"]
        assert not runner.progress.given_up
        assert runner.progress.possibly_billed == 0
