"""Rule 5 and the limits per model: retries, Retry-After, fewer in flight where a server refuses."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from flow_fakes import FAST, FakeChat, ask, prompt, user

from ragwright.core import (
    MissingKeyError,
    ModelRefusedError,
    ModelUnavailableError,
    RateLimitedError,
)
from ragwright.flow import Chat, Flow, Lane, RetryPolicy, Runner, RunnerOptions, chat

DOWN, REFUSED = ModelUnavailableError("down"), RateLimitedError("slow down")


def named(model: str, text: str) -> Flow[str]:
    return (yield from chat(model, user(text))).text


# -- attempts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "ends_at", "calls"),
    [
        (DOWN, 3, 3),
        (DOWN, 9, 4),
        (ModelRefusedError("no"), 2, 1),
        (MissingKeyError("no key"), 2, 1),
        (RateLimitedError("slow down", retry_after=86_400.0), 2, 1),
    ],
    ids=["up again", "down for good", "refused", "no key", "more time than anyone has"],
)
def test_what_may_succeed_is_tried_again_and_what_cannot_is_not(
    error: Exception, ends_at: int, calls: int
) -> None:
    handler = FakeChat(lambda r, n: "up" if n >= ends_at or prompt(r) == "next" else error)
    with Runner({Chat: handler}, retry=RetryPolicy(attempts=4, base=0.001)) as runner:
        (found,) = runner.outcomes([ask("a")])
        assert (found.value == "up") is (ends_at == calls)
        assert found.error is None or type(found.error) is type(error)
        assert len(handler.asked) == calls
        assert runner.progress.retries == calls - 1
        assert runner.run(ask("next")) == "up"  # no lane is held back a day


def test_pauses_grow_are_spread_and_obey_the_server() -> None:
    policy = RetryPolicy(attempts=9, base=1.0, longest=8.0)
    chance = random.Random(1)
    spans = [[policy.pause(DOWN, n, chance) or 0.0 for _ in range(200)] for n in (1, 2, 3, 7)]
    for span, most in zip(spans, (1.0, 2.0, 4.0, 8.0), strict=True):
        assert most / 2 <= min(span) < max(span) <= most
    asked = policy.pause(RateLimitedError("slow", retry_after=60), 1, chance)
    assert asked is not None
    assert asked >= 60
    assert policy.pause(DOWN, 9, chance) is None


def test_retry_after_holds_the_whole_lane_back_and_no_other() -> None:
    """Not one more request goes out between the 429 and the time it named.

    A loop ends its pauses in the order of their times, however busy the machine is.
    """

    def answer(_request: Chat, _n: int) -> str | Exception:
        first = handler.asked == ["a"]
        return RateLimitedError("slow down", retry_after=0.25) if first else "fine"

    handler = FakeChat(answer, before=lambda r: asyncio.sleep(0.2 if r.model == "other" else 0))
    flows = [*map(ask, "abcd"), named("other", "x")]
    with Runner({Chat: handler}, RunnerOptions(concurrency=1), retry=FAST) as runner:
        assert list(runner.map(flows, limit=9)) == ["fine"] * 5
    assert handler.asked[:2] == ["a", "x"]
    assert sorted(handler.asked[2:]) == ["a", "b", "c", "d"]


# -- places in flight ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "limit", "most"),
    [
        (RunnerOptions(concurrency=5), None, 5),
        (RunnerOptions(concurrency=5), 3, 3),
        (RunnerOptions(concurrency=5, jobs=2), 3, 2),
        (RunnerOptions(concurrency=2, jobs=4), 3, 3),
    ],
)
def test_never_more_in_flight_than_asked_for(
    options: RunnerOptions, limit: int | None, most: int
) -> None:
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


def test_a_burst_halves_a_lane_once_few_failures_do_not_and_success_widens_it() -> None:
    async def work() -> None:
        lane = Lane("m", 16)
        started = asyncio.get_running_loop().time()
        for _ in range(16):
            await lane.acquire()
        for _ in range(16):  # sixteen refusals at once say one thing
            lane.overloaded(None, started)
        assert lane.allowed == 8
        for _ in range(7):
            lane.succeeded()
        assert 8.5 < lane.allowed < 9
        for _ in range(200):
            lane.succeeded()
        assert lane.allowed == 16
        for n in range(400):
            if n % 20 == 7:
                lane.overloaded(None, asyncio.get_running_loop().time())
            else:
                lane.succeeded()
            assert lane.allowed == 16
        for reason in ({"retry_after": 0.001}, {"retry_after": None, "slow": True}):
            before = lane.allowed
            lane.overloaded(sent_at=asyncio.get_running_loop().time(), **reason)
            assert lane.allowed == before / 2

    asyncio.run(work())
