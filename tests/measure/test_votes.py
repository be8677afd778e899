"""What votes are worth: the formulas, and how reviews correct the assumptions."""

from __future__ import annotations

import numpy as np
import pytest

from ragwright.measure import VoteModel


def test_the_assumed_readers_are_lazy_or_err() -> None:
    model = VoteModel.assumed(wrong=0.2, lazy=0.3)
    assert (model.accept_right, model.accept_wrong) == pytest.approx((0.86, 0.44))
    # by hand: 0.86² 0.14 / (0.86² 0.14 + 0.44² 0.56)
    assert model.probability(2, 1) == pytest.approx(0.103544 / (0.103544 + 0.108416))
    assert model.probability(0, 0) == pytest.approx(0.5)


def test_the_worth_of_n_votes_is_what_a_simulation_gives() -> None:
    model, random = VoteModel.assumed(), np.random.default_rng(1)
    right = random.random(40_000) < 0.5
    accepts = np.where(right, model.accept_right, model.accept_wrong)
    for count in (1, 4, 9):
        accepted = random.binomial(count, accepts)
        says = np.asarray([model.probability(a, count - a) >= 0.5 for a in range(count + 1)])
        assert model.correct(count) == pytest.approx(
            float((says[accepted] == right).mean()), abs=0.01
        )
    needed = model.needed(0.95)
    assert needed is not None
    assert model.correct(needed) >= 0.95 > model.correct(needed - 1)


def test_reviewed_votes_replace_the_assumptions() -> None:
    few = VoteModel.of_reviews((3, 3), (0, 1))
    many = VoteModel.of_reviews((950, 1000), (100, 1000))
    assert few.accept_right == pytest.approx((3 + 20 * 0.86) / 23)
    assert many.accept_right == pytest.approx(0.95, abs=0.005)
    assert many.accept_wrong == pytest.approx(0.1, abs=0.01)
    assert "assumed" in few.basis
    assert "4 votes reviewed so far" in few.basis
    assert many.basis == "measured on 2000 votes that people reviewed here"
    assert many.correct(1) > VoteModel.assumed().correct(1) + 0.2


def test_votes_that_say_nothing_are_never_enough() -> None:
    model = VoteModel(0.7, 0.7)
    assert model.needed(0.95) is None
    assert model.correct(25) == pytest.approx(0.5)
    assert "more than 99 are needed" in model.summary


@pytest.mark.parametrize(
    ("votes", "text"),
    [
        ((0, 0), "Nobody voted"),
        ((5, 0), "5 of 5 votes accept this answer: with such votes an answer is right about 97"),
        ((0, 1), "0 of 1 votes accept this answer: with such votes an answer is wrong about 80"),
        ((2, 1), "such votes leave it open"),
        ((9_000, 1_000), "right about 99 times in 100"),
        ((0, 100_000), "wrong about 99 times in 100"),
    ],
)
def test_a_sentence_says_what_votes_mean(votes: tuple[int, int], text: str) -> None:
    assert text in VoteModel.assumed().sentence(*votes)
