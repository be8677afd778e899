"""Trials: the points of a search, and a leaderboard that refused rows do not lead."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ragwright.core import Score, make_plain
from ragwright.experiment import (
    RowResult,
    TrialResult,
    evaluation_of,
    leaderboard,
    objective_of,
    read_plain,
    trial_result,
)
from ragwright.measure import MeasureScale, parse_measure, parse_measures, set_scale

F1 = objective_of("TokenF1", parse_measures("TokenF1"))
REFUSED = Score("TokenF1", "abstained", reason="refused")
BARE = Score("TokenF1", "not_applicable", reason="no reference", no_gold=True)


def trial(number: int, values: Sequence[float | Score], measure: str = "TokenF1") -> TrialResult:
    scores = [one if isinstance(one, Score) else Score(measure, "scored", one) for one in values]
    results = [RowResult(f"r{at}", (), (score,)) for at, score in enumerate(scores)]
    return trial_result(number, {}, "run", evaluation_of(results, parse_measures(measure)))


def test_one_that_refuses_what_is_hard_does_not_lead() -> None:
    shy = trial(1, [1.0] * 10 + [REFUSED] * 30)
    plain = trial(0, [0.0] * 10 + [1.0] * 30)
    assert (shy.value("TokenF1"), shy.ranked_value("TokenF1")) == (1.0, 0.25)
    assert (plain.value("TokenF1"), plain.ranked_value("TokenF1")) == (0.75, 0.75)
    assert [one.id for one in leaderboard([shy, plain], F1)] == ["T000", "T001"]
    # Rows without gold cost nothing, and a stored trial ranks alike.
    bare = trial(2, [0.5, BARE])
    assert bare.ranked_value("TokenF1") == 0.5
    for one in (bare, shy):
        assert read_plain(TrialResult, json.loads(json.dumps(make_plain(one)))) == one


def test_without_a_worst_value_the_mean_ranks_and_a_rubric_has_its_own_scale() -> None:
    silent = Score("Perplexity", "abstained", reason="refused")
    endless = trial(3, [2.0, silent], "Perplexity")
    assert endless.ranked_value("Perplexity") == 2.0
    assert endless.ranked_value("MRR@5") is None
    rubric = set_scale(parse_measure("Rubric(tone)"), MeasureScale(1, 7))
    assert objective_of("", [rubric]).known_scale == MeasureScale(1, 7)
