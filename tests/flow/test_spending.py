"""A daily budget holds for every process and machine that shares its database."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path

import pytest
from flow_fakes import FakeChat

from ragwright.core import BudgetStopped, ConfigError, Usage
from ragwright.flow import (
    Budget,
    Chat,
    ChatReply,
    Flow,
    Message,
    Runner,
    RunnerOptions,
    Spending,
    chat,
)
from ragwright.ledger import Place, SharedPlace

NUMBERS = itertools.count()


def limited(text: str, tokens: int = 10) -> Flow[str]:
    """A chat whose worst case is ``tokens`` completion tokens."""
    reply = yield from chat("m", [Message("user", text)], {"max_tokens": tokens})
    return reply.text


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs_postgres]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path / "ledger.sqlite"
    folder = request.getfixturevalue("postgres")
    return SharedPlace(f"postgresql://admin@/postgres?host={folder}", f"s{next(NUMBERS)}")


def cheap(price: float = 1.0) -> FakeChat:
    """Each call may cost 10, and costs 2."""
    return FakeChat(lambda r, n: ChatReply("x", Usage(1, 1, 2)), latency=0.01, price=price)


def test_runners_side_by_side_never_spend_more_than_the_day_allows(place: Place) -> None:
    """Four machines, 40 calls of 2 each, and 61 for all of them: 26 calls fit, since the last
    one has to fit with the 10 that it may cost.
    """
    handlers = [cheap() for _ in range(4)]
    states: list[str] = []
    errors: list[str] = []

    def machine(number: int) -> None:
        spending = Spending(place, 61)
        options = RunnerOptions(concurrency=3)
        with Runner({Chat: handlers[number]}, options, budget=Budget(daily=spending)) as runner:
            calls = (limited(f"{number} {at}") for at in range(40))
            found = list(runner.outcomes(calls))
            states.extend(outcome.state for outcome in found)
            errors.extend(str(o.error) for o in found if o.error)
        spending.close()

    machines = [threading.Thread(target=machine, args=(number,)) for number in range(4)]
    for one in machines:
        one.start()
    for one in machines:
        one.join(60)
    sent = sum(len(handler.asked) for handler in handlers)
    after = Spending(place, 61)
    assert after.today() == pytest.approx(2 * sent)
    assert sent == 26, set(errors)
    assert states.count("done") == sent
    after.close()


def test_what_was_spent_counts_for_whoever_comes_next(place: Place) -> None:
    for number in range(2):
        spending = Spending(place, 25)
        handler = FakeChat(price=1.0)
        with Runner({Chat: handler}, budget=Budget(daily=spending)) as runner:
            outcomes = list(runner.outcomes([limited(f"{number}a"), limited(f"{number}b")]))
        spending.close()
        if number:
            assert {one.state for one in outcomes} == {"skipped"}
            assert isinstance(outcomes[0].error, BudgetStopped)
            assert "daily budget of 25" in str(outcomes[0].error)
            assert "spent today 20" in str(outcomes[0].error)
            assert not handler.asked
        else:
            assert [one.state for one in outcomes] == ["done", "done"]


def test_a_killed_call_counts_as_spent_and_a_free_one_costs_nothing(place: Place) -> None:
    killed = Spending(place, 100)
    asyncio.run(killed.reserve(30.0))  # and never settled
    killed.close()
    spending = Spending(place, 100)
    assert spending.today() == 30
    with Runner({Chat: FakeChat()}, budget=Budget(daily=spending)) as runner:
        assert runner.run(limited("free")) == "re: free"
    assert spending.today() == 30
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
        spending._in_flight += 1
        given_up = asyncio.ensure_future(spending.reserve(2.0))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0.3)

    asyncio.run(scenario())
    assert spending.today() == pytest.approx(1.0)
    spending.close()


def test_a_model_without_a_price_is_refused(tmp_path: Path) -> None:
    spending = Spending(tmp_path / "ledger.sqlite", 15)
    handler = FakeChat(price=1.0)
    handler.unit_price = None
    with (
        Runner({Chat: handler}, budget=Budget(daily=spending)) as runner,
        pytest.raises(ConfigError, match="has no price"),
    ):
        runner.run(limited("a"))
    spending.close()
