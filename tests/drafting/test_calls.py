"""How many texts a call asks for: what fits its reply, few calls, even ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from draft_desk import plan_of, record
from hypothesis import given, strategies as st

from ragwright.answer import DraftOptions, Window, count_tokens
from ragwright.core import ConfigError, Hit, build_options, parse_yaml
from ragwright.drafting import (
    ONE_CALL,
    DraftPlan,
    DraftRequest,
    Example,
    Pool,
    portions,
    text_tokens,
    texts_per_call,
)
from ragwright.models import WordTokenizer
from ragwright.records import LengthGroup, Rules
from ragwright.retrieve import Retrieved

TEXTS = tuple(record(number).text.partition(":\n\n")[2] for number in range(30))


def pool_of(*texts: str) -> Pool:
    """A pool of these texts."""
    hit = Hit(1, 0.0, "a", "a:0", "a", "", None, 0, 0, "")
    return Pool(Retrieved("", ()), tuple(Example("", "", one, hit) for one in texts))


def asked(count: int, length: str = "short", plan: DraftPlan | None = None, **window: Any) -> int:
    """Texts that one call asks for."""
    return per_call(count, length, plan or plan_of(), pool_of(*TEXTS), Window(**window))


def per_call(count: int, length: str, plan: DraftPlan, pool: Pool, window: Window) -> int:
    request = DraftRequest("Jane Doe", length=length, count=count)
    return texts_per_call(count, plan.options, text_tokens(request, plan, pool, window))


@given(st.integers(0, 500), st.integers(1, 200))
def test_portions_are_few_and_even(count: int, most: int) -> None:
    parts = portions(count, most)
    assert sum(parts) == count
    assert len(parts) == math.ceil(count / most)
    assert max(parts, default=0) <= most
    assert max(parts, default=0) - min(parts, default=0) <= 1


@pytest.mark.parametrize(
    "window",
    [{}, {"ratio": 4.0}, {"ratio": 1.5}, {"tokenizer": WordTokenizer()}],
    ids=["plain", "sparse", "dense", "tokenizer"],
)
@pytest.mark.parametrize(("length", "under"), [("short", 160), ("medium", 400)])
@pytest.mark.parametrize("limit", [200, 1500, 4000])
def test_texts_as_long_as_they_may_be_fit_the_reply(
    window: dict[str, Any], length: str, under: int, limit: int
) -> None:
    plan = plan_of(max_tokens=limit)
    most = asked(200, length, plan, **window)
    longest = (" ".join(TEXTS) * 9)[: under - 1]
    full = "\n".join(f"{number}. {longest}" for number in range(1, most + 1))
    assert most == 1 or Window(**window).count(full) <= limit
    more = "\n".join(f"{number}. {longest}" for number in range(1, 2 * most + 2))
    assert Window(**window).count(more) > limit  # and the estimate is no excuse for tiny calls


@pytest.mark.parametrize("length", ["short", "medium"])
@pytest.mark.parametrize("count", [1, 5, ONE_CALL])
def test_a_few_texts_are_one_call(length: str, count: int) -> None:
    assert DraftOptions().max_tokens == 1500
    assert asked(count, length, DraftPlan()) >= count


def test_a_few_texts_are_more_calls_where_a_reply_is_too_small() -> None:
    assert 1 <= asked(15, plan=plan_of(max_tokens=200)) < 15
    assert asked(5, plan=plan_of(max_tokens=16)) == 1


def test_it_may_be_said() -> None:
    assert asked(200, plan=plan_of(per_call=200)) == 200
    assert asked(5, plan=plan_of(per_call=2)) == 2
    placed = parse_yaml("per_call: 0\n", "p.yaml")
    with pytest.raises(ConfigError, match="per_call"):
        build_options(DraftOptions, placed.value, placed, ())


def test_without_an_upper_bound_the_longest_example_counts() -> None:
    rules = Rules((LengthGroup("any", None),))
    plan = replace(plan_of(), rules=rules)
    brief = per_call(200, "any", plan, pool_of("word " * 10), Window())
    wordy = per_call(200, "any", plan, pool_of("word " * 10, "word " * 200), Window())
    assert brief > 3 * wordy >= 3
    assert wordy * count_tokens("word " * 200) <= plan.options.max_tokens


def test_dense_scripts_have_smaller_calls() -> None:
    dense = per_call(200, "short", plan_of(), pool_of("健康保险需要你的支持请今天捐款"), Window())
    assert dense * 4 < asked(200)
