"""Rule 5 and the limits per model: retries, Retry-After, AIMD."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from flow_fakes import FakeChat, ask, prompt, user

from ragwright.core import (
    MissingKeyError,
    ModelRefusedError,
    ModelUnavailableError,
    RateLimitedError,
)
from ragwright.flow import (
    Chat,
    ChatReply,
    Flow,
    Lane,
    OnDelta,
    RetryPolicy,
    Runner,
    RunnerOptions,
    chat,
)

FAST = RetryPolicy(base=0.001, longest=0.01)


def named(model: str, text: str) -> Flow[str]:
    return (yield from chat(model, user(text))).text


def test_what_may_succeed_is_tried_again_and_what_cannot_is_not() -> None:
    down = FakeChat(lambda r, n: "up" if n == 3 else ModelUnavailableError("down"))
    with Runner({Chat: down}, retry=FAST) as runner:
        assert runner.run(ask("a")) == "up"
        assert runner.progress.retries == 2
    for error in (ModelRefusedError("no"), MissingKeyError("no key")):
        refused = FakeChat(lambda r, n, error=error: error)  # type: ignore[misc]
        with Runner({Chat: refused}, retry=FAST) as runner, pytest.raises(type(error)):
            runner.run(ask("a"))
        assert len(refused.asked) == 1


def test_attempts_are_bounded() -> None:
    down = FakeChat(lambda r, n: ModelUnavailableError("down"))
    retry = RetryPolicy(attempts=4, base=0.001)
    with Runner({Chat: down}, retry=retry) as runner, pytest.raises(ModelUnavailableError):
        runner.run(ask("a"))
    assert len(down.asked) == 4


def test_pauses_grow_are_spread_and_obey_the_server() -> None:
    policy = RetryPolicy(attempts=9, base=1.0, longest=8.0)
    chance = random.Random(1)
    down = ModelUnavailableError("down")
    spans = [[policy.pause(down, n, chance) or 0.0 for _ in range(200)] for n in (1, 2, 3, 7)]
    for span, most in zip(spans, (1.0, 2.0, 4.0, 8.0), strict=True):
        assert most / 2 <= min(span) < max(span) <= most
    asked = policy.pause(RateLimitedError("slow", retry_after=60), 1, chance)
    assert asked is not None
    assert asked >= 60
    assert policy.pause(down, 9, chance) is None


def test_never_more_in_flight_than_asked_for() -> None:
    for options, limit, most in (
        (RunnerOptions(concurrency=5), None, 5),
        (RunnerOptions(concurrency=5), 3, 3),
        (RunnerOptions(concurrency=5, jobs=2), 3, 2),
        (RunnerOptions(concurrency=2, jobs=4), 3, 3),
    ):
        handler = FakeChat(latency=0.005, limit=limit)
        with Runner({Chat: handler}, options) as runner:
            list(runner.map(ask(str(i)) for i in range(40)))
        assert handler.most_in_flight == most


@pytest.mark.parametrize("seed", range(20))
def test_never_more_in_flight_whatever_ends_is_refused_or_is_given_up(seed: int) -> None:
    chance = random.Random(seed)
    lane = Lane("m", chance.randint(1, 6))
    sent = 0

    async def call() -> None:
        nonlocal sent
        await lane.acquire()
        sent += 1
        try:
            assert sent <= lane.in_flight <= lane.limit
            started = asyncio.get_running_loop().time()
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                lane.overloaded(chance.choice([None, 0.0005]), started)
            else:
                lane.succeeded()
        finally:
            sent -= 1
            lane.release()

    async def work() -> None:
        calls = [asyncio.create_task(call()) for _ in range(100)]
        while not all(one.done() for one in calls):
            for one in chance.sample(calls, 2):
                if chance.random() < 0.2:
                    one.cancel()
            await asyncio.sleep(0)
        for one in calls:
            with suppress(asyncio.CancelledError):
                await one
        await lane.acquire()  # no place was lost on the way
        assert lane.in_flight == 1

    asyncio.run(asyncio.wait_for(work(), 20))  # a place lost for good would be waited for


class Noted(FakeChat):
    """Notes what it is asked; a call to ``other`` only after 0.2 s.

    A loop ends its pauses in the order of their times, however busy the machine is.
    """

    async def send(self, request: Chat, on_delta: OnDelta | None = None) -> ChatReply:
        if request.model == "other":
            await asyncio.sleep(0.2)
        return await super().send(request, on_delta)


def test_retry_after_holds_the_whole_lane_back_and_no_other() -> None:
    """Not one more request goes out between the 429 and the time it named."""

    def answer(_request: Chat, _n: int) -> str | Exception:
        first = handler.asked == ["a"]
        return RateLimitedError("slow down", retry_after=0.25) if first else "fine"

    handler = Noted(answer)
    flows = [*map(ask, "abcd"), named("other", "x")]
    with Runner({Chat: handler}, RunnerOptions(concurrency=1), retry=FAST) as runner:
        assert list(runner.map(flows, limit=9)) == ["fine"] * 5
    assert handler.asked[:2] == ["a", "x"]
    assert sorted(handler.asked[2:]) == ["a", "b", "c", "d"]


def test_a_server_that_asks_for_more_time_than_anyone_has_fails_the_call_at_once() -> None:
    asks = RateLimitedError("slow down", retry_after=86_400.0)
    handler = FakeChat(lambda r, n: asks if n == 1 else "fine")
    with Runner({Chat: handler}) as runner:
        with pytest.raises(RateLimitedError):
            runner.run(ask("a"))
        assert runner.run(ask("b")) == "fine"  # its lane is not held back a day either


@pytest.mark.slow
def test_pushback_halves_what_is_in_flight_and_success_recovers_it() -> None:
    state = {"refuse": False}

    class Bounded(FakeChat):
        async def send(self, request: Chat, on_delta: Any = None) -> ChatReply:
            if state["refuse"] and self.in_flight >= 4:
                self.asked.append("refused")
                raise RateLimitedError("slow down")
            return await super().send(request, on_delta)

    handler = Bounded(latency=0.004)
    options = RunnerOptions(concurrency=16)
    patient = RetryPolicy(rate_limited_attempts=60, base=0.05, longest=0.2)
    with Runner({Chat: handler}, options, retry=patient) as runner:
        list(runner.map(ask(f"a{i}") for i in range(32)))
        assert handler.most_in_flight == 16
        state["refuse"] = True
        list(runner.map(ask(f"b{i}") for i in range(200)))
        lane = runner._engine.caller.lanes["m"]
        assert lane.allowed <= 16
        refused = handler.asked.count("refused")
        assert refused < 200  # it does not keep running into the wall
        state["refuse"] = False
        list(runner.map(ask(f"c{i}") for i in range(400)))
        assert lane.allowed == 16


def test_a_lane_is_cut_at_most_once_for_one_burst() -> None:
    def answer(_request: Chat, n: int) -> str | Exception:
        return RateLimitedError("slow down") if n <= 16 else "fine"

    handler = FakeChat(answer, latency=0.01)
    with Runner({Chat: handler}, RunnerOptions(concurrency=16), retry=FAST) as runner:
        results = runner.map(ask(f"a{i}") for i in range(16))
        next(results)
        # sixteen refusals at once say one thing: half as many, not one
        assert runner._engine.caller.lanes["m"].allowed >= 7
        list(results)


def test_a_few_failures_among_many_replies_leave_the_lane_wide() -> None:
    def answer(request: Chat, n: int) -> str | Exception:
        first = handler.asked.count(prompt(request)) == 1
        bad = int(prompt(request)) % 20 == 7
        return ModelUnavailableError("500") if bad and first else "fine"

    handler = FakeChat(answer, latency=0.002)
    with Runner({Chat: handler}, RunnerOptions(concurrency=16), retry=FAST) as runner:
        assert len(list(runner.map(ask(str(i)) for i in range(400)))) == 400
        assert runner.progress.retries == 20
        assert runner._engine.caller.lanes["m"].allowed == 16
