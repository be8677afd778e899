"""The leaderboard: what is refused or lost is no way to its top."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ragwright.core import Score, make_plain
from ragwright.experiment import (
    Objective,
    RowResult,
    TrialResult,
    evaluation_of,
    leaderboard,
    objectives_of,
    pareto_front,
    read_plain,
    survivors,
    trial_result,
)
from ragwright.measure import MeasureScale, parse_measure, parse_measures, set_scale

MEASURES = parse_measures("TokenF1")
F1 = objectives_of(["TokenF1"], MEASURES)


def trial(number: int, values: Sequence[float | None], measure: str = "TokenF1") -> TrialResult:
    scores = [
        Score(measure, "abstained", reason="refused")
        if value is None
        else Score(measure, "scored", value)
        for value in values
    ]
    results = [RowResult(f"r{at}", (), (score,)) for at, score in enumerate(scores)]
    return trial_result(number, {}, "run", evaluation_of(results, parse_measures(measure)))


SHY = trial(1, [1.0] * 10 + [None] * 30)
PLAIN = trial(0, [0.0] * 10 + [1.0] * 30)


def test_one_that_refuses_what_is_hard_does_not_lead() -> None:
    assert (SHY.value("TokenF1"), SHY.ranked_value("TokenF1")) == (1.0, 0.25)
    assert (PLAIN.value("TokenF1"), PLAIN.ranked_value("TokenF1")) == (0.75, 0.75)
    assert [one.id for one in leaderboard([SHY, PLAIN], F1)] == ["T000", "T001"]
    assert [one.id for one in pareto_front([SHY, PLAIN], F1)] == ["T000"]
    assert [one.id for one in survivors([SHY, PLAIN], F1, 0.5)] == ["T000"]


def test_rows_without_gold_cost_nothing_and_a_stored_trial_ranks_alike() -> None:
    bare = Score("TokenF1", "not_applicable", reason="no reference", no_gold=True)
    results = [RowResult("a", (), (Score("TokenF1", "scored", 0.5),)), RowResult("b", (), (bare,))]
    found = trial_result(2, {}, "run", evaluation_of(results, MEASURES))
    assert found.ranked_value("TokenF1") == 0.5
    for one in (found, SHY):
        assert read_plain(TrialResult, json.loads(json.dumps(make_plain(one)))) == one


def test_without_a_worst_value_the_mean_ranks() -> None:
    endless = trial(3, [2.0, None], "Perplexity")
    assert endless.ranked_value("Perplexity") == 2.0
    assert endless.ranked_value("seconds") is None


def test_an_objective_knows_the_scale_of_a_rubric_of_ones_own() -> None:
    rubric = set_scale(parse_measure("Rubric(tone)"), MeasureScale(1, 7))
    assert objectives_of([], [rubric]) == (Objective("Rubric(tone)", True, MeasureScale(1, 7)),)
