"""The judge's own spread is kept apart from the spread over questions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragwright.core import Score
from ragwright.measure import FIRST_ORDER, SECOND_ORDER, combine_repeats, flip_rate, judge_spread


def row(*values: float | None) -> Score:
    return combine_repeats(
        [
            Score("Faithfulness", "judge_invalid", reason="no")
            if value is None
            else Score("Faithfulness", "scored", value, detail="so")
            for value in values
        ]
    )


def test_spread_by_hand() -> None:
    spread = judge_spread([row(3, 5), row(4, 4), row(2), row(None, None)])
    assert (spread.rows, spread.samples) == (2, 4)
    assert spread.within == 1.0  # (2 + 0) / 2
    assert spread.sd == 1.0
    assert spread.difference == 1.0
    assert spread.agree == 0.5
    assert spread.between == 0.0  # both means are 4, less the noise in them


def test_without_repeats_nothing_is_said() -> None:
    assert judge_spread([row(3), row(4)]).within is None
    assert flip_rate([row(3)]).rate is None
    assert judge_spread([]).rows == 0


@given(st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=5), min_size=2, max_size=6))
def test_spread_is_that_of_numpy(rows: list[list[int]]) -> None:
    spread = judge_spread([row(*values) for values in rows])
    assert spread.within == pytest.approx(np.mean([np.var(values, ddof=1) for values in rows]))
    pairs = [
        np.mean([abs(a - b) for i, a in enumerate(values) for b in values[:i]]) for values in rows
    ]
    assert spread.difference == pytest.approx(np.mean(pairs))
    noise = np.mean([np.var(values, ddof=1) / len(values) for values in rows])
    total = np.var([np.mean(values) for values in rows], ddof=1)
    assert spread.between == pytest.approx(max(0.0, total - noise))


def test_a_noisy_judge_and_different_questions_are_told_apart() -> None:
    noisy = judge_spread([row(1, 5), row(5, 1), row(1, 5)])
    steady = judge_spread([row(1, 1), row(5, 5), row(3, 3)])
    assert noisy.sd is not None
    assert noisy.sd > 2
    assert noisy.between == 0
    assert steady.sd == 0
    assert steady.between == 4


def test_flips_by_hand() -> None:
    def pair(first: float, second: float) -> Score:
        parts = {FIRST_ORDER: first, SECOND_ORDER: second}
        return Score("Pairwise", "scored", (first + second) / 2, parts=parts)

    rate = flip_rate([pair(5, 3), pair(4, 4), pair(3, 4), Score("Pairwise", "skipped")])
    assert (rate.rows, rate.judgments, rate.flipped) == (3, 3, 2)
    assert rate.rate == pytest.approx(2 / 3)
    assert rate.difference == 1.0
    assert rate.lean == pytest.approx(1 / 3)


def test_flips_of_repeats_do_not_cancel_out() -> None:
    def pair(first: float, second: float) -> Score:
        parts = {FIRST_ORDER: first, SECOND_ORDER: second}
        return Score("Pairwise", "scored", (first + second) / 2, parts=parts)

    twice = combine_repeats([pair(5, 3), pair(3, 5)])
    assert twice.parts[FIRST_ORDER] == twice.parts[SECOND_ORDER] == 4
    rate = flip_rate([twice, pair(4, 4)])
    assert (rate.rows, rate.judgments, rate.flipped) == (2, 3, 2)
    assert rate.rate == pytest.approx(2 / 3)
    assert rate.difference == pytest.approx(4 / 3)
    assert rate.lean == 0
    invalid = Score("Pairwise", "judge_invalid", reason="no")
    found = flip_rate([combine_repeats([pair(5, 3), invalid, pair(4, 4)])])
    assert (found.judgments, found.flipped) == (2, 1)
    assert judge_spread([twice]).samples == 2  # orders are no repeats


def test_a_row_needs_more_than_half_of_its_repeats() -> None:
    assert row(4, None).state == "judge_invalid"
    assert row(4, 5, None).value == 4.5
    assert row(None, 4, None).reason == "1 of 3 repeats are valid. no"
