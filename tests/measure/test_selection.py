"""The best of many candidates: what choosing it adds; what a change loses at the most."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ragwright.core import MeasureError, Score
from ragwright.measure import MeasureScale, choose_best, most_lost

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
GAP = Score("M", "judge_invalid", reason="no number")


def scores(values: Values | Sequence[float | None], measure: str = "M") -> dict[str, Score]:
    return {
        f"r{at}": Score(measure, "abstained", reason="refused")
        if value is None
        else Score(measure, "scored", round(float(value), 6))
        for at, value in enumerate(values)
    }


Study = tuple[dict[str, Score], dict[str, dict[str, Score]]]


def null_study(draw: np.random.Generator, candidates: int, rows: int) -> Study:
    """Candidates that are no better than the incumbent: rows differ, systems only by noise."""
    hard = draw.normal(0, 1, rows)
    made = {f"T{n}": scores(hard + draw.normal(0, 0.5, rows)) for n in range(candidates)}
    return scores(hard + draw.normal(0, 0.5, rows)), made


@pytest.mark.slow
def test_with_nothing_to_find_the_best_mean_always_wins_and_the_corrected_one_seldom() -> None:
    draw = np.random.default_rng(7)
    found = [choose_best(*null_study(draw, 20, 40)) for _ in range(50)]
    assert np.mean([one.difference > 0 for one in found]) > 0.85  # "best mean wins" calls it won
    # nominal 0.025 in this direction, and room for 50 studies
    assert np.mean([one.p <= 0.05 for one in found]) <= 0.08
    # Most of the lead is what choosing adds.
    lead = np.mean([one.difference for one in found])
    assert 0.5 < np.mean([one.optimism for one in found]) / lead < 1.3


def test_one_candidate_has_the_p_value_of_every_way_of_flipping() -> None:
    differences = np.array([0.4, -0.1, 0.3, 0.2, 0.5, -0.2, 0.1, 0.6])
    found = choose_best(scores(np.zeros(8)), {"only": scores(differences)})
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    exact = 2 * np.mean((signs * differences).sum(axis=1) >= differences.sum() - 1e-12)
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found.difference == pytest.approx(differences.mean())
    assert abs(found.optimism) < 0.01  # nothing is chosen
    sides = {"worse": scores([4.0] * 10), "better": scores([2.0] * 10)}
    less = choose_best(scores([3.0] * 10), sides, higher_is_better=False)
    assert (less.best, less.difference) == ("better", 1.0)


def test_rows_without_a_score_count_for_nothing_and_clusters_move_together() -> None:
    incumbent, gaps = scores(np.arange(12.0)), scores(np.arange(12.0) + 1)
    gaps["r0"] = GAP
    found = choose_best(incumbent, {"gaps": gaps})
    assert (found.n, found.lost, found.left_out) == (11, 0, 1)
    ended = choose_best(incumbent, {"gaps": gaps}, scale=MeasureScale(-1, None))
    assert (ended.n, ended.lost) == (12, 1)  # there is a worst value
    assert ended.difference == pytest.approx(10 / 12)
    for nobody in ({}, {"x": {"b": Score("M", "scored", 1.0)}}):
        with pytest.raises(MeasureError, match="no candidate shares a scored row"):
            choose_best(incumbent, nobody)
    del gaps["r1"]
    found = choose_best(incumbent, {"gaps": gaps})
    assert (found.n, found.difference) == (10, 1.0)
    clusters = {f"r{n}": n // 6 for n in range(12)}
    assert found.p < 0.01
    assert choose_best(incumbent, {"gaps": gaps}, clusters=clusters).p >= 0.4


def f1(*values: float | None) -> dict[str, Score]:
    return scores(values, "TokenF1")


def test_refusing_what_is_hard_wins_nothing_and_what_nobody_could_answer_is_no_loss() -> None:
    incumbent, shy = f1(*[0.0] * 10, *[1.0] * 30), f1(*[1.0] * 10, *[None] * 30)
    found = choose_best(incumbent, {"shy": shy})
    assert (found.n, found.lost, found.left_out) == (40, 30, 0)
    assert found.difference == pytest.approx(-0.5)
    assert found.p == 1.0
    # what one refuses that another answers is a loss of the one that refuses: the incumbent too
    assert choose_best(shy, {"bold": incumbent}).difference == pytest.approx(0.5)
    both = choose_best(incumbent, {"shy": shy, "bold": f1(*[0.25] * 10, *[1.0] * 30)})
    assert both.best == "bold"
    bare = Score("TokenF1", "not_applicable", reason="no reference", no_gold=True)
    down = Score("TokenF1", "errored", reason="the server was down")
    nobody = {"gold": bare, "down": down}
    found = choose_best({**f1(0, 0, 0.5), **nobody}, {"other": {**f1(1, 1, 0.5), **nobody}})
    assert (found.n, found.lost) == (3, 0)
    assert found.difference == pytest.approx(2 / 3)


# -- Non-inferiority: how often a deletion that costs the margin is called safe --------------------

SHARE = MeasureScale(0.0, 1.0)
MARGIN, TRIES = 0.05, 100


def lost(before: Mapping[str, Score], after: Mapping[str, Score], seed: int = 0) -> float:
    bound = most_lost(before, after, SHARE, seed=seed)
    assert bound is not None
    return bound


def test_what_costs_nothing_is_called_safe_once_there_are_rows_or_clusters_enough() -> None:
    draw = np.random.default_rng(3)
    for rows, wanted in ((71, False), (72, True)):
        value = scores(draw.random(rows))
        assert (lost(value, value) < MARGIN) is wanted
        assert lost(value, value) == pytest.approx(1 - 0.025 ** (1 / rows))
    noise = draw.normal(0, 0.05, 300)
    assert lost(scores(0.5 + noise), scores(0.5 - noise)) < MARGIN
    value = scores([1.0] * 100)
    pairs = {row: int(row[1:]) // 2 for row in value}
    paired = most_lost(value, value, SHARE, clusters=pairs)
    assert paired == pytest.approx(1 - 0.025 ** (1 / 50))
    whole, less = value, scores([2.0] * 100)
    up, down = MeasureScale(1.0, 5.0), MeasureScale(1.0, 5.0, False)
    assert most_lost(whole, less, up) == 0.0
    assert 1.0 < (most_lost(whole, less, down) or 0) < 1.2
    assert most_lost(whole, less, MeasureScale(0.0, None)) is None
    assert most_lost(scores([1.0]), scores([1.0]), up) is None


def test_rows_that_only_one_answers_count_as_lost() -> None:
    whole = scores([1.0] * 100)
    silent, failed = Score("m", "abstained"), Score("m", "errored", reason="no")
    both = lost(whole, {**whole, "r3": silent, "r4": failed})
    assert both > lost({**whole, "r3": silent}, whole) > lost(whole, whole)
    assert both > lost({**whole, "r3": failed}, whole)
