"""The best of many candidates: what choosing it adds, and how often it is taken for a winner."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from ragwright.core import MeasureError, Score
from ragwright.measure import MeasureScale, choose_best


def scores(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Score]:
    return {f"r{at}": Score("M", "scored", float(value)) for at, value in enumerate(values)}


def null_study(
    draw: np.random.Generator, candidates: int, rows: int
) -> tuple[dict[str, Score], dict[str, dict[str, Score]]]:
    """Candidates that are no better than the incumbent: rows differ, systems only by noise."""
    hard = draw.normal(0, 1, rows)
    made = {f"T{n}": scores(hard + draw.normal(0, 0.5, rows)) for n in range(candidates)}
    return scores(hard + draw.normal(0, 0.5, rows)), made


@pytest.mark.slow
def test_with_nothing_to_find_the_best_mean_always_wins_and_the_corrected_one_seldom() -> None:
    draw = np.random.default_rng(7)
    studies = 80
    ahead = proven = 0
    optimism, lead = [], []
    for _ in range(studies):
        incumbent, candidates = null_study(draw, 20, 40)
        found = choose_best(incumbent, candidates)
        ahead += found.difference > 0
        proven += found.p <= 0.05
        optimism.append(found.optimism)
        lead.append(found.difference)
    assert ahead / studies > 0.85  # "best mean wins" calls nearly every study won
    assert proven / studies <= 0.08  # nominal 0.025 in this direction, and room for 80 studies
    # Most of the lead is what choosing adds.
    assert 0.5 < np.mean(optimism) / np.mean(lead) < 1.3


@pytest.mark.slow
def test_a_real_winner_is_found() -> None:
    draw = np.random.default_rng(1)
    found = 0
    for _ in range(20):
        incumbent, candidates = null_study(draw, 20, 60)
        better = {row: Score("M", "scored", (s.value or 0) + 0.8) for row, s in incumbent.items()}
        shaken = scores(np.array([s.value for s in better.values()]) + draw.normal(0, 0.5, 60))
        chosen = choose_best(incumbent, {**candidates, "good": shaken})
        found += chosen.best == "good" and chosen.p <= 0.05
    assert found >= 19


def test_the_p_value_of_one_candidate_is_that_of_every_way_of_flipping() -> None:
    differences = np.array([0.4, -0.1, 0.3, 0.2, 0.5, -0.2, 0.1, 0.6])
    found = choose_best(scores(np.zeros(8)), {"only": scores(differences)})
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    exact = 2 * np.mean((signs * differences).sum(axis=1) >= differences.sum() - 1e-12)
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found.difference == pytest.approx(differences.mean())
    assert abs(found.optimism) < 0.01  # one candidate: nothing is chosen


def test_less_is_better_where_the_measure_says_so() -> None:
    incumbent = scores(np.full(10, 3.0))
    found = choose_best(
        incumbent,
        {"worse": scores(np.full(10, 4.0)), "better": scores(np.full(10, 2.0))},
        higher_is_better=False,
    )
    assert (found.best, found.difference) == ("better", 1.0)


def test_rows_without_a_score_count_for_nothing_and_clusters_move_together() -> None:
    incumbent = scores(np.arange(12.0))
    gaps = scores(np.arange(12.0) + 1)
    gaps["r0"] = Score("M", "judge_invalid", reason="no number")
    del gaps["r1"]
    found = choose_best(incumbent, {"gaps": gaps})
    assert (found.n, found.difference) == (10, 1.0)
    alone = choose_best(incumbent, {"gaps": gaps}).p
    together = choose_best(
        incumbent, {"gaps": gaps}, clusters={f"r{n}": n // 6 for n in range(12)}
    ).p
    assert alone < 0.01
    assert together >= 0.4


def test_without_a_row_in_common_nothing_is_chosen() -> None:
    with pytest.raises(MeasureError, match="no candidate shares a scored row"):
        choose_best({"a": Score("M", "scored", 1.0)}, {"x": {"b": Score("M", "scored", 1.0)}})


@pytest.mark.slow
def test_halving_with_nothing_to_find_is_honest_where_dropped_trials_are_counted() -> None:
    """64 candidates on 30 of 60 rows, the better 8 of them on all: the choice was among 64."""
    draw = np.random.default_rng(1)
    studies, forgot, counted = 50, 0, 0
    optimism, lead = [], []
    for seed in range(studies):
        base = draw.normal(0, 1, 60)
        shown = base + draw.normal(0, 1, (64, 60))
        order = np.argsort(-shown[:, :30].mean(axis=1))
        full = {f"T{at}": scores(shown[at]) for at in order[:8]}
        dropped = {f"T{at}": scores(shown[at, :30]) for at in order[8:]}
        found = choose_best(scores(base), {**dropped, **full}, seed=seed, eligible=full)
        assert (found.candidates, found.n, found.best in full) == (64, 60, True)
        counted += found.p <= 0.05
        forgot += choose_best(scores(base), full, seed=seed).p <= 0.05
        optimism.append(found.optimism)
        lead.append(found.difference)
    assert forgot / studies > 0.1
    assert counted / studies <= 0.05
    assert 0.5 < np.mean(optimism) / np.mean(lead) < 1.3


def test_one_that_was_dropped_is_not_chosen_however_far_it_led() -> None:
    incumbent = scores(np.zeros(12))
    found = choose_best(
        incumbent,
        {"dropped": scores(np.ones(4)), "whole": scores(np.full(12, 0.5))},
        eligible=["whole"],
    )
    assert (found.best, found.candidates, found.n, found.lost) == ("whole", 2, 12, 0)
    with pytest.raises(MeasureError, match="no candidate shares a scored row"):
        choose_best(incumbent, {"dropped": scores(np.ones(4))}, eligible=[])


def f1(values: Sequence[float | None]) -> dict[str, Score]:
    return {
        f"r{at}": Score("TokenF1", "abstained", reason="refused")
        if value is None
        else Score("TokenF1", "scored", value)
        for at, value in enumerate(values)
    }


def test_refusing_what_is_hard_wins_nothing() -> None:
    incumbent = f1([0.0] * 10 + [1.0] * 30)
    shy = f1([1.0] * 10 + [None] * 30)
    found = choose_best(incumbent, {"shy": shy})
    assert (found.n, found.lost, found.left_out) == (40, 30, 0)
    assert found.difference == pytest.approx(-0.5)
    assert found.p == 1.0
    # what one refuses that another answers is a loss of the one that refuses: the incumbent too
    assert choose_best(shy, {"bold": incumbent}).difference == pytest.approx(0.5)
    both = choose_best(incumbent, {"shy": shy, "bold": f1([0.25] * 10 + [1.0] * 30)})
    assert both.best == "bold"


def test_rows_that_nobody_could_be_scored_on_are_no_loss() -> None:
    incumbent, other = f1([0.0, 0.0, 0.5]), f1([1.0, 1.0, 0.5])
    bare = Score("TokenF1", "not_applicable", reason="no reference", no_gold=True)
    down = Score("TokenF1", "errored", reason="the server was down")
    sides = [{**side, "gold": bare, "down": down} for side in (incumbent, other)]
    found = choose_best(sides[0], {"other": sides[1]})
    assert (found.n, found.lost) == (3, 0)
    assert found.difference == pytest.approx(2 / 3)


def test_without_a_worst_value_lost_rows_are_left_out_and_counted() -> None:
    incumbent = scores(np.arange(12.0))
    gaps = scores(np.arange(12.0) + 1)
    gaps["r0"] = Score("M", "judge_invalid", reason="no number")
    found = choose_best(incumbent, {"gaps": gaps})
    assert (found.n, found.lost, found.left_out) == (11, 0, 1)
    ended = choose_best(incumbent, {"gaps": gaps}, scale=MeasureScale(-1, None))
    assert (ended.n, ended.lost) == (12, 1)
    assert ended.difference == pytest.approx(10 / 12)
