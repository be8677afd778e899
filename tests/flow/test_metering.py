"""What calls cost is noted for the work that started them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from flow_fakes import FakeChat, ask, ask_all

from ragwright.core import ConfigError, Usage
from ragwright.flow import Chat, Meter, Replies, Runner, meter_costs

PRICE = 0.05
ONE = PRICE * 10
"""Cost of a reply of FakeChat, which has ten tokens."""


def cost(noted: list[Usage]) -> float:
    return sum(usage.cost or 0.0 for usage in noted)


def test_each_call_is_noted_for_the_work_that_started_it() -> None:
    mine: list[Usage] = []
    others: list[Usage] = []
    with Runner({Chat: FakeChat(price=PRICE)}) as runner:
        with meter_costs(Meter(others.append)):
            runner.run(ask("x"))
        with meter_costs(Meter(mine.append)):
            assert list(runner.map([ask_all("a", "b"), ask("c")]))
        runner.run(ask("nobody's"))
        assert runner.budget.spent == pytest.approx(5 * ONE)
    assert len(mine) == 3
    assert cost(mine) == pytest.approx(3 * ONE)
    assert cost(others) == pytest.approx(ONE)
    assert all(usage.completion_tokens == 10 for usage in mine)


def test_a_stored_reply_costs_nothing(tmp_path: Path) -> None:
    noted: list[Usage] = []
    replies = Replies(tmp_path / "replies.sqlite")
    with (
        Runner({Chat: FakeChat(price=PRICE)}, replies=replies) as runner,
        meter_costs(Meter(noted.append)),
    ):
        runner.run(ask("a"))
        runner.run(ask("a"))
    replies.close()
    assert len(noted) == 1


def test_a_call_that_is_cut_off_counts_with_the_most_it_can_cost() -> None:
    noted: list[Usage] = []
    fake = FakeChat(price=PRICE, latency=30.0)

    async def cut(runner: Runner) -> None:
        with meter_costs(Meter(noted.append)):
            task = asyncio.create_task(runner.arun(ask("a")))
        while not fake.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        while not noted:
            await asyncio.sleep(0.01)

    with Runner({Chat: fake}) as runner:
        asyncio.run(cut(runner))
        assert runner.budget.spent == pytest.approx(cost(noted))
    assert cost(noted) > ONE


def test_a_model_without_a_price_is_refused_where_prices_are_needed() -> None:
    noted: list[Usage] = []
    fake = FakeChat()
    fake.costs = True
    with Runner({Chat: fake}) as runner:
        with (
            meter_costs(Meter(noted.append, priced=True)),
            pytest.raises(ConfigError, match="price"),
        ):
            runner.run(ask("a"))
        assert not fake.asked
        assert runner.run(ask("a")) == "re: a"
