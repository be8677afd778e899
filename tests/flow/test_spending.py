"""Rules 4 and 14: budgets of a run and of a day, and what each call cost whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, ask_all, limited, stubborn, until

from ragwright.core import BudgetStopped, ConfigError, Usage
from ragwright.flow import (
    Budget,
    Chat,
    ChatReply,
    Flow,
    Meter,
    Replies,
    Runner,
    RunnerOptions,
    Spending,
    gather,
    meter_costs,
)
from ragwright.ledger import Place

pytest_plugins = ["flow_stores"]


def cheap(latency: float = 0.0) -> FakeChat:
    return FakeChat(lambda r, n: ChatReply("x", Usage(1, 1, 2)), latency=latency, price=1.0)


def unpriced() -> FakeChat:
    handler = FakeChat()
    handler.costs = True
    return handler


def clinging(_text: str, log: list[str]) -> Flow[str]:
    try:
        yield from ask_all(*"abcd")
    finally:
        log.append("closed")
        yield from limited("one more")
    return "never"


def gathered(text: str, log: list[str]) -> Flow[str]:
    yield from gather([stubborn(text, log), gather([stubborn("b", log)])], settle=True)
    return "never"


@pytest.mark.parametrize(("flow", "closed"), [(stubborn, 1), (clinging, 1), (gathered, 2)])
def test_a_budget_stops_flows_whatever_they_catch_or_gather(
    flow: Callable[[str, list[str]], Flow[str]], closed: int
) -> None:
    log: list[str] = []
    handler, options = FakeChat(price=1.0), RunnerOptions(longest_reply=10)
    with Runner({Chat: handler}, options, budget=Budget(35)) as runner:
        (outcome,) = runner.outcomes([flow("a", log)])
        assert runner.budget.spent == 30
    assert outcome.state == "skipped"
    assert isinstance(outcome.error, BudgetStopped)
    assert log == ["closed"] * closed
    assert len(handler.asked) == 3
    assert "one more" not in handler.asked


def test_calls_that_together_exceed_the_budget_are_not_both_in_flight() -> None:
    """Both may cost 10 of 15; each costs 2: one after the other both fit."""
    handler = cheap(0.02)
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
        await until(lambda: handler.asked)
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


def test_after_a_budget_stop_replies_are_kept_and_nothing_more_is_sent(replies: Replies) -> None:
    handler = FakeChat(latency=0.05, price=1.0)
    options = RunnerOptions(concurrency=4)
    with Runner({Chat: handler}, options, budget=Budget(45), replies=replies) as runner:
        outcomes = list(runner.outcomes(limited(str(i)) for i in range(50)))
        assert runner.budget.spent <= 45
    assert len(handler.asked) == 4
    assert {o.state for o in outcomes} <= {"done", "skipped"}
    errors = [id(o.error) for o in outcomes if o.error]
    assert len({*errors}) == len(errors), "flows stopped together do not share one error"
    assert sum(count for _, _, count, *_ in replies.statistics()) == 4
    with Runner({Chat: handler}, replies=replies) as runner:
        assert all(o.state == "done" for o in runner.outcomes(limited(str(i)) for i in range(8)))
    assert len(handler.asked) == 8  # the four kept ones were not asked again


# -- money nobody can name -----------------------------------------------------------------


class Capricious(FakeChat):
    def price(self, request: Chat, usage: Usage) -> float | None:
        return 10.0 if usage.completion_tokens == 10 else None


@pytest.mark.parametrize(
    ("handler", "limit", "calls"),
    [
        pytest.param(FakeChat(lambda r, n: ChatReply("x", Usage()), price=1.0), 35, 3, id="tokens"),
        pytest.param(
            Capricious(lambda r, n: ChatReply("x", Usage(1, 3, 3)), price=1.0), 25, 2, id="price"
        ),
    ],
)
def test_an_unknown_cost_is_the_most_it_can_be(handler: FakeChat, limit: float, calls: int) -> None:
    with Runner({Chat: handler}, RunnerOptions(longest_reply=10), budget=Budget(limit)) as runner:
        states = [o.state for o in runner.outcomes((ask(str(i)) for i in range(9)), limit=1)]
        assert runner.budget.spent == 10 * calls
    assert states.count("done") == len(handler.asked) == calls


def test_a_model_without_a_price_is_refused_where_money_counts(tmp_path: Path) -> None:
    noted: list[Usage] = []
    for budget in (Budget(1), Budget(daily=Spending(tmp_path / "ledger.sqlite", 15))):
        handler = unpriced()
        with Runner({Chat: handler}, budget=budget) as runner:
            with pytest.raises(ConfigError, match="has no price"):
                runner.run(ask("a"))
            assert {o.state for o in runner.outcomes([ask("a"), ask("b")])} == {"skipped"}
        assert handler.asked == []
        if budget.daily:
            budget.daily.close()
    with Runner({Chat: unpriced()}) as runner:
        with (
            meter_costs(Meter(noted.append, priced=True)),
            pytest.raises(ConfigError, match="price"),
        ):
            runner.run(ask("a"))
        assert runner.run(ask("a")) == "re: a"


# -- a day's budget ------------------------------------------------------------------------


def test_runners_side_by_side_never_spend_more_than_the_day_allows(place: Place) -> None:
    """Four machines, 40 calls of 2 each, and 61 for all of them: 26 calls fit, since the last
    one has to fit with the 10 that it may cost.
    """
    handlers = [cheap(0.01) for _ in range(4)]
    states, errors = list[str](), set[str]()

    def machine(number: int) -> None:
        spending = Spending(place, 61)
        options = RunnerOptions(concurrency=3)
        with Runner({Chat: handlers[number]}, options, budget=Budget(daily=spending)) as runner:
            for outcome in runner.outcomes(limited(f"{number} {at}") for at in range(40)):
                states.append(outcome.state)
                errors.add(str(outcome.error))
        spending.close()

    machines = [threading.Thread(target=machine, args=(number,)) for number in range(4)]
    for one in machines:
        one.start()
    for one in machines:
        one.join(60)
    sent = sum(len(handler.asked) for handler in handlers)
    after = Spending(place, 61)
    assert after.today() == pytest.approx(2 * sent)
    assert sent == 26, errors
    assert states.count("done") == sent
    after.close()


def test_what_was_spent_counts_for_whoever_comes_next_a_killed_call_too(place: Place) -> None:
    for states in (["done", "done"], ["skipped", "skipped"]):
        spending, handler = Spending(place, 25), FakeChat(price=1.0)
        with Runner({Chat: handler}, budget=Budget(daily=spending)) as runner:
            outcomes = list(runner.outcomes([limited(states[0]), limited("b")]))
        assert [one.state for one in outcomes] == states
        spending.close()
    assert isinstance(outcomes[0].error, BudgetStopped)
    assert "daily budget of 25" in str(outcomes[0].error)
    assert "spent today 20" in str(outcomes[0].error)
    assert not handler.asked
    killed = Spending(place, 100)
    asyncio.run(killed.reserve(30.0))  # and never settled
    killed.close()
    spending = Spending(place, 100)
    with Runner({Chat: FakeChat()}, budget=Budget(daily=spending)) as runner:
        assert runner.run(limited("free")) == "re: free"
    assert spending.today() == 50
    spending.close()


def test_a_call_that_is_given_up_while_it_waits_holds_no_money(tmp_path: Path) -> None:
    spending = Spending(tmp_path / "ledger.sqlite", 15)

    async def scenario() -> None:
        first = await spending.reserve(10.0)
        waiting = asyncio.ensure_future(spending.reserve(10.0))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.sleep(0.05)
        spending.settle(first, 1.0)
        spending.settle(first, 1.0)  # as after a commit whose answer was lost
        given_up = asyncio.ensure_future(spending.reserve(2.0))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0.3)

    asyncio.run(scenario())
    assert spending.today() == pytest.approx(1.0)
    spending.close()


# -- what calls cost whom ------------------------------------------------------------------


def test_each_call_is_noted_for_its_work_and_a_stored_one_costs_nothing(replies: Replies) -> None:
    mine, others = list[Usage](), list[Usage]()
    with Runner({Chat: FakeChat(price=0.05)}, replies=replies) as runner:
        with meter_costs(Meter(others.append)):
            runner.run(ask("x"))
        with meter_costs(Meter(mine.append)):
            assert list(runner.map([ask_all("a", "b"), ask("c"), ask("x")]))
        runner.run(ask("nobody's"))
        assert runner.budget.spent == pytest.approx(5 * 0.5)
    assert [(usage.completion_tokens, usage.cost) for usage in mine] == [(10, 0.5)] * 3
    assert [usage.cost for usage in others] == [0.5]


def test_a_call_that_is_cut_off_counts_with_the_most_it_can_cost() -> None:
    noted: list[Usage] = []
    fake = FakeChat(price=0.05, latency=30.0)

    async def cut(runner: Runner) -> None:
        with meter_costs(Meter(noted.append)):
            task = asyncio.create_task(runner.arun(ask("a")))
        await until(lambda: fake.asked)
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: noted)

    with Runner({Chat: fake}) as runner:
        asyncio.run(cut(runner))
        assert runner.budget.spent == sum(usage.cost or 0.0 for usage in noted) > 0.5
