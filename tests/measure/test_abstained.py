"""Abstentions on rows with gold: the state stays, comparisons count the worst value."""

from __future__ import annotations

import pytest

from ragwright import evaluate
from ragwright.core import Row, Score
from ragwright.measure import (
    Comparison,
    GateOptions,
    aggregate,
    compare_rows,
    gate,
    parse_measures,
    score_rows,
)

MISSED = Score("TokenF1", "abstained", reason="the system gave no answer", missed=True)


def token_f1(**fields: object) -> Score:
    row = Row("r", "Who?", "", **{"metadata": {"abstained": True}, **fields})  # type: ignore[arg-type]
    [[score]] = score_rows([row], parse_measures("TokenF1"))
    return score


def scored(value: float, measure: str = "TokenF1") -> Score:
    return Score(measure, "scored", value)


def side(*scores: Score) -> dict[str, tuple[Score, ...]]:
    return {f"q{at}": (score,) for at, score in enumerate(scores)}


def hybrid_abstains(abstentions: int, rows: int = 50) -> Comparison:
    values = [0.5 + at % 5 / 10 for at in range(rows)]
    before = [scored(value) for value in values]
    after = [MISSED if at < abstentions else scored(v) for at, v in enumerate(values)]
    return compare_rows(side(*before), side(*after))["TokenF1"]


def test_an_abstention_is_missed_where_the_row_has_gold_and_is_not_unanswerable() -> None:
    assert token_f1(reference="Ada").missed
    assert token_f1(reference="Ada").state == "abstained"
    assert token_f1(reference="Ada").value is None
    refused = token_f1(reference="none", metadata={"abstained": True, "answerable": False})
    assert (refused.missed, refused.unanswerable) == (False, True)
    assert token_f1().no_gold


def test_both_means_are_kept() -> None:
    found = aggregate([scored(0.8), scored(0.6), MISSED])
    assert found.mean == pytest.approx(0.7)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.mean_with_abstained == pytest.approx(1.4 / 3)
    assert (found.n, found.missed) == (2, 1)
    assert found.states["abstained"] == 1
    plain = aggregate([scored(0.8), scored(0.6)])
    assert plain.deciding == (plain.mean, plain.low, plain.high)
    assert plain.mean_with_abstained == plain.mean


def test_the_worst_value_is_that_of_the_scale() -> None:
    judged = Score("Faithfulness", "abstained", missed=True)
    found = aggregate([scored(5, "Faithfulness"), scored(4, "Faithfulness"), judged])
    assert found.mean_with_abstained == pytest.approx(10 / 3)
    endless = Score("Perplexity", "abstained", missed=True)
    found = aggregate([scored(5, "Perplexity"), endless])
    assert (found.mean_with_abstained, found.deciding[0]) == (None, 5)


def test_a_system_that_abstains_more_is_worse() -> None:
    found = hybrid_abstains(15)
    assert found.difference == 0
    assert (found.n, found.mean_a, found.mean_b) == (35, found.mean_b, found.mean_a)
    whole = found.with_abstained
    assert whole is not None
    assert whole.n == 50
    assert whole.difference == pytest.approx(-15 * 0.7 / 50)
    assert found.verdict == whole.verdict == "worse"
    assert found.text.endswith(
        " (15 abstained rows count as 0; +0.0000 on the 35 that both answered)."
    )
    assert ". " not in found.text  # one sentence


def test_three_more_abstentions_move_the_difference() -> None:
    found = hybrid_abstains(3)
    assert found.deciding.difference == pytest.approx(-(0.5 + 0.6 + 0.7) / 50)
    assert found.moved == {"scored -> abstained": ("q0", "q1", "q2")}
    assert hybrid_abstains(0).with_abstained is None


def test_a_gate_counts_abstentions_as_the_worst_value() -> None:
    few = aggregate([*[scored(0.8)] * 19, *[scored(0.9)] * 19, MISSED])
    [check] = gate([few], ["TokenF1>=0.84"]).checks
    assert check.state == "failed"
    assert check.value == pytest.approx(few.mean_with_abstained)
    assert "1 abstention counts as 0: 0.8500 on the 38 answered" in check.reason
    assert gate([few], ["TokenF1>=0.8"]).state == "passed"
    many = aggregate([*[scored(0.9)] * 30, *[MISSED] * 10])
    assert gate([many], ["TokenF1>=0.5"]).state == "untrusted"
    assert gate([many], ["TokenF1>=0.5"], GateOptions(floor=0.5)).state == "passed"
    assert gate([many], ["TokenF1>=0.7"]).state == "failed"


def test_a_rule_against_a_baseline_sees_abstentions() -> None:
    summaries = [aggregate([scored(0.8)] * 12)]
    rules, options = ["TokenF1>=baseline-0.2"], GateOptions(floor=0.5)
    for abstentions, state in ((0, "passed"), (40, "failed")):
        values = [scored(0.8)] * 100
        after = [*[MISSED] * abstentions, *values[abstentions:]]
        against = compare_rows(side(*values), side(*after))
        assert gate(summaries, rules, options, against=against).state == state


def test_an_evaluation_shows_both_means() -> None:
    row = {"user_input": "Who?", "reference": "Ada Lovelace"}
    answered = [{**row, "response": "Ada Lovelace"} for _ in range(3)]
    found = evaluate([*answered, {**row, "response": "", "abstained": True}], "TokenF1")
    assert (found["TokenF1"].mean, found["TokenF1"].mean_with_abstained) == (1.0, 0.75)
    assert found.to_records()[3]["TokenF1 state"] == "abstained"
