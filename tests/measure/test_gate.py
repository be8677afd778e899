"""Gates: rules that can be missed, and no pass on numbers that cannot be trusted."""

from __future__ import annotations

import pytest

from ragwright.core import MeasureError, Score
from ragwright.measure import (
    Estimate,
    GateOptions,
    JudgeCheck,
    MeasureScale,
    Summary,
    Tally,
    aggregate,
    compare_rows,
    gate,
    parse_measure,
    parse_rule,
    set_scale,
)


def summary(*values: float, lost: int = 0, measure: str = "nDCG@10") -> Summary:
    scores = [Score(measure, "scored", value) for value in values]
    return aggregate([*scores, *[Score(measure, "judge_invalid", reason="why")] * lost])


GOOD = summary(*[0.8, 0.9] * 20)


@pytest.mark.parametrize(
    "text",
    [
        "nDCG@10>=0.7",
        "QADistance<=0.4",
        "nDCG@10>=baseline-0.02",
        "QADistance<=baseline+0.1",
        "Recall(rel=2)@5>=baseline",
    ],
)
def test_a_rule_parses_back(text: str) -> None:
    assert str(parse_rule(text)) == text
    spaced = text.replace(">=", " >= ").replace("<=", " <= ")
    assert parse_rule(spaced) == parse_rule(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nDCG@10", "cannot read"),
        ("nDCG@10=0.7", "cannot read"),
        ("nDCG@10>=good", "neither a number"),
        ("nDCG@10>=nan", "outside the scale"),
        ("nDCG@10<=0.7", "gets worse"),
        ("QADistance>=0.7", "gets worse"),
        ("nDCG@10>=70", "outside the scale"),
        ("nDCG@10>=0", "every run meets"),
        ("nDCG@10>=baseline+0.1", "more than the baseline"),
        ("nDCG>=0.7@10", "neither a number"),
        ("nDGC@10>=0.7", "unknown measure"),
        ("nDCG@10>=baseline-1", "every run meets"),
        ("nDCG@10>=baseline-1.5", "every run meets"),
        ("Faithfulness>=baseline-4", "every run meets"),
        ("QADistance<=baseline+2", "every run meets"),
        ("Perplexity<=inf", "is not a number"),
        ("nDCG@10>=inf", "is not a number"),
        ("nDCG@10>=-inf", "is not a number"),
    ],
)
def test_rules_that_test_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        parse_rule(text)


def test_thresholds() -> None:
    assert gate([GOOD], ["nDCG@10>=0.85"]).state == "passed"
    found = gate([GOOD], ["nDCG@10>=0.7", "nDCG@10>=0.9"])
    assert found.state == "failed"
    assert [check.state for check in found.checks] == ["passed", "failed"]
    assert "mean 0.8500 on 40 rows" in found.checks[1].reason
    with pytest.raises(MeasureError, match="no rule"):
        gate([GOOD], [])


def test_the_interval_may_have_to_clear_the_threshold() -> None:
    sure = GateOptions(sure=True)
    assert gate([GOOD], ["nDCG@10>=0.84"]).state == "passed"
    found = gate([GOOD], ["nDCG@10>=0.84"], sure)
    assert found.state == "failed"
    assert "reaches below 0.84" in found.checks[0].reason
    assert gate([GOOD], ["nDCG@10>=0.8"], sure).state == "passed"
    assert gate([summary(0.9)], ["nDCG@10>=0.8"], sure).state == "untrusted"


def test_too_little_coverage_is_neither_passed_nor_failed() -> None:
    lossy = summary(*[0.9] * 18, lost=2)
    found = gate([lossy], ["nDCG@10>=0.7"])
    assert found.state == "untrusted"
    assert found.checks[0].reason == "coverage 90.0% is below the floor, 95.0% (judge_invalid 2)"
    assert gate([lossy], ["nDCG@10>=0.7"], GateOptions(floor=0.9)).state == "passed"
    assert gate([summary(lost=3)], ["nDCG@10>=0.7"]).state == "untrusted"
    assert gate([GOOD], ["MRR>=0.7"]).state == "untrusted"


def test_what_is_missed_even_at_best_has_failed() -> None:
    found = gate([summary(*[0.1] * 9, lost=1)], ["nDCG@10>=0.7"])
    assert found.state == "failed"
    assert "at best 0.19" in found.checks[0].reason


def test_a_failure_is_not_hidden_by_what_is_unknown() -> None:
    assert gate([GOOD], ["nDCG@10>=0.9", "MRR>=0.5"]).state == "failed"


def rubric_summary(*values: float) -> Summary:
    tally = Tally(set_scale(parse_measure("Rubric(tone)"), MeasureScale(0, 2)))
    for value in values:
        tally.add(Score("Rubric(tone)", "scored", value))
    return tally.summary()


def test_a_judge_that_nobody_checked_is_not_believed() -> None:
    good, rule = rubric_summary(*[2, 1] * 20), ["Rubric(tone)>=1.4"]
    assert gate([good], rule).state == "passed"
    for options in (GateOptions(calibrated=True), GateOptions(min_kappa=0.1)):
        assert gate([good], rule, options).state == "untrusted"
    known = {"Rubric(tone)": JudgeCheck(40, Estimate(0.7, 0.5, 0.9), Estimate(0.3, 0.2, 0.4), True)}
    assert gate([good], rule, GateOptions(calibrated=True), checked=known).state == "passed"
    for least, sure, state in (
        (0.6, False, "passed"),
        (0.6, True, "untrusted"),
        (0.4, True, "failed"),
    ):
        found = gate([good], rule, GateOptions(sure=sure, min_kappa=least), checked=known)
        assert found.state == state
    assert gate([good], rule, GateOptions(corrected=True), checked=known).state == "failed"
    assert gate([GOOD], ["nDCG@10>=0.7"], GateOptions(calibrated=True)).state == "passed"


def test_a_judge_whose_passport_does_not_show_agreement_is_not_believed() -> None:
    good, rule = rubric_summary(*[2, 1] * 20), ["Rubric(tone)>=1.4"]
    doubt = "its passport on own does not show that it can be trusted"
    known = {"Rubric(tone)": JudgeCheck(40, Estimate(0.1, -0.2, 0.4), doubt=doubt)}
    found = gate([good], rule, GateOptions(calibrated=True), checked=known)
    assert found.state == "untrusted"
    assert found.checks[0].reason == doubt
    assert not found.warnings
    plain = gate([good], rule, checked=known)
    assert plain.state == "passed"
    assert doubt in plain.warnings[0]
    corrected = gate([good], rule, GateOptions(corrected=True), checked=known)
    assert corrected.checks[0].reason == "the judge's bias is unknown"


def test_a_rule_on_a_judge_that_nobody_checked_warns() -> None:
    good = rubric_summary(*[2, 1] * 20)
    found = gate([good, GOOD], ["Rubric(tone)>=1.4", "Rubric(tone)>=1.2", "nDCG@10>=0.7"])
    assert found.state == "passed"
    [warning] = found.warnings
    assert warning.startswith("Rubric(tone): its judge was never checked against people")
    assert [bool(check.warning) for check in found.checks] == [True, True, False]
    known = {"Rubric(tone)": JudgeCheck(40, Estimate(0.7, 0.5, 0.9), Estimate(0.3, 0.2, 0.4), True)}
    assert gate([good], ["Rubric(tone)>=1.4"], checked=known).warnings == ()


def test_a_rule_knows_the_scale_of_a_rubric() -> None:
    with pytest.raises(MeasureError, match="outside the scale"):
        gate([rubric_summary(2, 1)], ["Rubric(tone)>=3"])
    with pytest.raises(MeasureError, match="every run meets"):
        gate([rubric_summary(2, 1)], ["Rubric(tone)>=0"])


def test_rows_without_gold_are_no_lack_of_coverage() -> None:
    scores = [Score("nDCG@10", "scored", at % 2 / 4 + 0.7) for at in range(40)]
    bare = Score("nDCG@10", "not_applicable", reason="no relevant document", no_gold=True)
    found = aggregate([*scores, *[bare] * 10])
    assert (found.n, found.no_gold, found.coverage) == (40, 10, 1.0)
    assert found.worst == found.best == pytest.approx(found.mean)
    passed = gate([found], ["nDCG@10>=0.7"])
    assert passed.state == "passed"
    assert "10 without gold left out" in passed.checks[0].reason
    silent = [Score("nDCG@10", "not_applicable", reason="the row has no response")] * 10
    assert gate([aggregate([*scores, *silent])], ["nDCG@10>=0.7"]).state == "untrusted"
    assert gate([aggregate([bare] * 3)], ["nDCG@10>=0.7"]).state == "untrusted"


def test_one_scored_row_among_a_thousand_without_gold_does_not_pass() -> None:
    bare = Score("nDCG@10", "not_applicable", reason="no relevant document", no_gold=True)
    found = aggregate([Score("nDCG@10", "scored", 1.0), *[bare] * 999])
    assert found.coverage == 1.0
    [check] = gate([found], ["nDCG@10>=0.7"]).checks
    assert check.state == "untrusted"
    assert check.reason == (
        "too few rows have a score: 1; at least 10 are required (999 have no gold for it)"
    )
    assert gate([found], ["nDCG@10>=0.7"], GateOptions(least=1)).state == "passed"
    assert gate([summary(*[0.8] * 10)], ["nDCG@10>=0.7"]).state == "passed"


def test_a_baseline_by_another_judge_is_not_trusted() -> None:
    sides = side(*[0.5, 0.6] * 20), side(*[0.9, 0.8] * 20)
    apart = {"nDCG@10": "other judges"}
    for first, second in (sides, sides[::-1]):
        against = compare_rows(first, second, incomparable=apart)
        [check] = gate([], ["nDCG@10>=baseline-0.05"], against=against).checks
        assert (check.state, check.reason) == ("untrusted", "other judges")


def side(*values: float | None) -> dict[str, list[Score]]:
    return {
        str(at): [Score("nDCG@10", "scored", v) if v is not None else Score("nDCG@10", "errored")]
        for at, v in enumerate(values)
    }


def test_not_worse_than_a_baseline() -> None:
    base = [0.5, 0.6, 0.7, 0.8] * 30
    slightly = [value - (0.02 if at % 2 else 0.0) for at, value in enumerate(base)]
    against = compare_rows(side(*base), side(*slightly))
    assert gate([], ["nDCG@10>=baseline-0.05"], against=against).state == "passed"
    found = gate([], ["nDCG@10>=baseline"], against=against)
    assert found.state == "failed"
    assert "may be beyond 0" in found.checks[0].reason
    lower = compare_rows(side(*base), side(*[value - 0.1 for value in base]))
    found = gate([], ["nDCG@10>=baseline"], against=lower)
    assert found.state == "failed"
    assert "is beyond 0" in found.checks[0].reason
    few = compare_rows(side(*base[:8]), side(0.3, 0.8, 0.6, 0.9, 0.5, 0.4, 0.8, 0.9))
    unsure = gate([], ["nDCG@10>=baseline-0.05"], GateOptions(least=8), against=few)
    assert unsure.state == "failed"
    assert "may be beyond 0.05" in unsure.checks[0].reason


def test_a_baseline_must_be_there_and_cover_the_rows() -> None:
    assert gate([GOOD], ["nDCG@10>=baseline"]).state == "untrusted"
    lossy = compare_rows(side(0.5, 0.6, 0.7, 0.8), side(0.5, 0.6, None, 0.8))
    found = gate([], ["nDCG@10>=baseline-0.1"], against=lossy)
    assert found.state == "untrusted"
    assert "75.0%" in found.checks[0].reason
    assert gate([], ["MRR>=baseline"], against=lossy).state == "untrusted"
    for count, least, state in (
        (1, 1, "untrusted"),
        (5, 1, "untrusted"),
        (6, 1, "passed"),
        (9, 10, "untrusted"),
        (10, 10, "passed"),
    ):
        values = ([0.5, 0.6] * 5)[:count]
        same = compare_rows(side(*values), side(*values))
        found = gate([], ["nDCG@10>=baseline-0.5"], GateOptions(least=least), against=same)
        assert found.state == state
