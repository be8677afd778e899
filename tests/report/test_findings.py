"""On the terminal: leaderboards, curves of suites, the passport of judges."""

from __future__ import annotations

import json
from dataclasses import replace

from ragwright.core import Score
from ragwright.experiment import (
    Curve,
    CurvePoint,
    TrialResult,
    leaderboard,
)
from ragwright.measure import Summary, aggregate, parse_measure
from ragwright.report import (
    curves_json,
    curves_table,
    leaderboard_block,
    trial_json,
)

# -- trials: what is shown of them, whatever is missing --------------------------------------------


def trial(number: int, mean: float | None, **values: object) -> TrialResult:
    scale = parse_measure("TokenF1").scale
    summary = Summary("TokenF1", mean, n=4, coverage=0.8, low=0.1, high=0.9, scale=scale)
    facts = {"context_tokens": 100.0 + number, "cost": 0.0}
    return TrialResult(number, values, "done", f"run{number}", 5, (summary,), facts)


def test_the_project_alone_is_a_board_too_and_a_trial_as_json_names_its_run() -> None:
    text = leaderboard_block([trial(0, 0.5)], objective="TokenF1").text(120)
    assert "T000" in text
    assert "0.500 [0.10, 0.90] (80%)" in text
    assert leaderboard_block([]).text() == "no trial has results"
    found = trial_json(trial(3, 0.5, k=[]))
    assert (found["id"], found["run"], found["measures"]["TokenF1"]["mean"]) == (
        "T003",
        "run3",
        0.5,
    )


def test_keys_that_tell_nothing_apart_and_facts_that_are_nothing_are_left_out() -> None:
    model = {"answer.model": "http://a.very.long/name#m"}
    board = [trial(n, 0.5, **{"chunk.size": n, **model}) for n in (1, 2)]
    text = leaderboard_block([*board, trial(0, 0.4)]).text(120)
    head = text.splitlines()[0]
    assert [name in head for name in ("size", "model", "cost")] == [True, False, False]
    assert "current" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_long_board_is_cut_but_not_before_the_project_and_reasons_are_told_once() -> None:
    board = [*(trial(n, 1 - n / 100, k=n) for n in range(1, 40)), trial(0, 0.1)]
    lost = [TrialResult(n, {"k": n}, "invalid", reason="does not fit") for n in range(1, 7)]
    text = leaderboard_block(board, most=5, rest=lost).text(120)
    assert "… 34 more; --json lists all" in text
    assert "T000" in text
    assert "T006" not in text
    assert "6 invalid: does not fit (T001 k = 1, T002 k = 2, T003 k = 3 and 3 more)" in text


def test_what_orders_trials_that_lost_rows_is_said() -> None:
    def lost(number: int, worst: float | None) -> TrialResult:
        one = trial(number, 1.0)
        return replace(one, summaries=(replace(one.summaries[0], worst=worst),))

    text = leaderboard_block([lost(n, 0.25) for n in range(5)], objective="TokenF1").text(120)
    assert "0.250 (80%)" in text, "a lead is a difference of what is shown"
    assert "1.000" not in text
    endless = leaderboard_block([lost(3, None)], objective="TokenF1").text(120)
    assert "TokenF1 has no worst value: T003 ordered by their scored rows" in endless
    assert "ordered by" not in leaderboard_block([lost(3, 0.25)]).text()


def test_trials_that_abstain_are_ordered_by_the_worst_value_and_show_both_means() -> None:
    def ended(number: int, last: Score) -> TrialResult:
        scores = [*(Score("TokenF1", "scored", value) for value in (0.6, 0.7, 0.8)), last]
        return TrialResult(number, {"k": number}, "done", rows=4, summaries=(aggregate(scores),))

    careful = ended(1, Score("TokenF1", "abstained", missed=True))
    plain = ended(2, Score("TokenF1", "scored", 0.4))
    board = leaderboard([careful, plain], parse_measure("TokenF1"))
    assert [one.id for one in board] == ["T002", "T001"]
    lines = leaderboard_block(board, objective="TokenF1").text(120).splitlines()
    head, _, first, second, *_ = lines
    for line, words in (
        (head, ("abstained = 0", "answered rows only")),
        (first, ("0.625 [", "0.625 (100%)")),
        (second, ("0.525 [", "0.700 (75%)")),
    ):
        assert all(word in line for word in words)
    shown = trial_json(careful)["measures"]["TokenF1"]
    assert (round(shown["mean"], 3), round(shown["mean_with_abstained"], 3)) == (0.7, 0.525)


# -- curves ----------------------------------------------------------------------------------------

POINTS = (
    CurvePoint(0.0, 5, 5, {}, 1.0, 0.4782, 1.0, 0.0, 0.2, 0.8, 0.4, 1.0, 5),
    CurvePoint(2 / 3, 4, 4, {"errored": 1}, 0.5, 0.0676, 0.9324, 0.25, 0.2, 0.3, -0.5, 0.9, 4),
)
DOSE = "share of irrelevant passages"
NOISE = Curve("noise", "accuracy", "Contains", DOSE, "all", POINTS, -0.5, -1.0, 0.1)
SOURCES = Curve(
    "sources", "share of parts", "Contains", "questions joined", "all", (CurvePoint(2.0, 0),)
)
REPORTED = ("counterfactual", "errors corrected, of those reported", "ErrorCorrection")
LONG = Curve(*REPORTED, "share of falsified passages", "known", (CurvePoint(1.0, 1, 1, {}, 1.0),))


def test_a_table_a_curve() -> None:
    text = curves_table([NOISE, SOURCES], notes=["one note"])
    assert text.splitlines()[:5] == [
        "noise: accuracy (Contains) over share of irrelevant passages",
        "dose    mean  95 % interval     n  abstained  closed book  above it  95 % interval",
        "----  ------  ----------------  -  ---------  -----------  --------  -----------------",
        "  0%  1.0000  0.4782 to 1.0000  5         0%       0.2000   +0.8000  0.4000 to 1.0000",
        " 67%  0.5000  0.0676 to 0.9324  4        25%       0.2000   +0.3000  -0.5000 to 0.9000",
    ]
    assert "from the first dose to the last: -0.5000 (-1.0000 to 0.1000)" in text
    assert "without a value: errored 1" in text
    assert "   2     -              -  0          -" in text  # a number of questions, no share
    assert text.endswith("note: one note")
    lines = curves_table([LONG]).splitlines()
    assert max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines[:2]).endswith("known without passages")


def test_json_holds_every_number() -> None:
    document = json.loads(json.dumps(curves_json([NOISE], run="r", notes=["n"])))
    assert (document["run"], document["notes"]) == ("r", ["n"])
    [curve] = document["curves"]
    first, second = curve["points"]
    assert (curve["change_low"], first["above"], second["without"]) == (-1.0, 0.8, {"errored": 1})
