"""The leaderboard: what is shown of trials, whatever is missing."""

from __future__ import annotations

from dataclasses import replace

from ragwright.core import Score
from ragwright.experiment import Objective, TrialResult, leaderboard
from ragwright.measure import Summary, aggregate, parse_measure
from ragwright.report import BoardView, leaderboard_table, trial_json


def trial(number: int, mean: float | None, **values: object) -> TrialResult:
    scale = parse_measure("TokenF1").scale
    summary = Summary("TokenF1", mean, n=4, coverage=0.8, low=0.1, high=0.9, scale=scale)
    facts = {"context_tokens": 100.0 + number, "cost": 0.0}
    return TrialResult(number, values, "done", f"run{number}", 5, (summary,), facts)


def test_the_project_alone_is_a_board_too() -> None:
    text = leaderboard_table([trial(0, 0.5)], view=BoardView(("TokenF1",)))
    assert "T000" in text
    assert "0.500 [0.10, 0.90] (80%)" in text
    assert leaderboard_table([]) == "no trial has results"


def test_keys_that_tell_nothing_apart_and_facts_that_are_nothing_are_left_out() -> None:
    board = [
        trial(n, 0.5, **{"chunk.size": n, "answer.model": "http://a.very.long/name#m"})
        for n in (1, 2)
    ]
    text = leaderboard_table([*board, trial(0, 0.4)])
    head = text.splitlines()[0]
    assert "size" in head
    assert "model" not in head
    assert "cost" not in head
    assert "current" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_long_board_is_cut_but_not_before_the_project() -> None:
    board = [*(trial(n, 1 - n / 100, k=n) for n in range(1, 40)), trial(0, 0.1)]
    text = leaderboard_table(board, view=BoardView(most=5))
    assert "… 34 more; --json lists all" in text
    assert "T000" in text
    assert "T006" not in text


def test_trials_without_a_result_are_told_once_a_reason() -> None:
    lost = [TrialResult(n, {"k": n}, "invalid", reason="does not fit") for n in range(1, 7)]
    text = leaderboard_table([trial(0, 0.5)], rest=lost)
    assert "6 invalid: does not fit (T001 k = 1, T002 k = 2, T003 k = 3 and 3 more)" in text


def test_a_trial_as_json_names_its_run() -> None:
    found = trial_json(trial(3, 0.5, k=[]))
    assert (found["id"], found["run"], found["measures"]["TokenF1"]["mean"]) == (
        "T003",
        "run3",
        0.5,
    )


def test_what_orders_trials_that_lost_rows_is_said() -> None:
    def lost(number: int, worst: float | None) -> TrialResult:
        one = trial(number, 1.0)
        return replace(one, summaries=(replace(one.summaries[0], worst=worst),))

    view = BoardView(("TokenF1",))
    text = leaderboard_table([lost(n, 0.25) for n in range(5)], view=view)
    assert "0.250 (80%)" in text, "a lead is a difference of what is shown"
    assert "1.000" not in text
    endless = leaderboard_table([lost(3, None)], view=view)
    assert "TokenF1 has no worst value: T003 ordered by their scored rows" in endless
    assert "ordered by" not in leaderboard_table([lost(3, 0.25)])


def test_trials_that_abstain_are_ordered_by_the_worst_value_and_show_both_means() -> None:
    missed = Score("TokenF1", "abstained", missed=True)
    kept = [Score("TokenF1", "scored", value) for value in (0.6, 0.7, 0.8)]
    careful = TrialResult(1, {"k": 1}, "done", rows=4, summaries=(aggregate([*kept, missed]),))
    full = [*kept, Score("TokenF1", "scored", 0.4)]
    plain = TrialResult(2, {"k": 2}, "done", rows=4, summaries=(aggregate(full),))
    board = leaderboard([careful, plain], [Objective("TokenF1", True)])
    assert [one.id for one in board] == ["T002", "T001"]
    head, _, first, second, *_ = leaderboard_table(board, view=BoardView(("TokenF1",))).splitlines()
    assert "abstained = 0" in head
    assert "answered rows only" in head
    assert "0.625 [" in first
    assert "0.625 (100%)" in first
    assert "0.525 [" in second
    assert "0.700 (75%)" in second
    shown = trial_json(careful)["measures"]["TokenF1"]
    assert (round(shown["mean"], 3), round(shown["mean_with_abstained"], 3)) == (0.7, 0.525)
