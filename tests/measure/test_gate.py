"""Gates: rules that can be missed, and no pass on numbers that cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ragwright.core import MeasureError, Row, Score
from ragwright.measure import (
    Comparison,
    Comparisons,
    GateCheck,
    GateOptions,
    JudgeCheck,
    MeasureScale,
    Summary,
    Tally,
    aggregate,
    compare_rows,
    gate,
    least_rows,
    parse_measure,
    parse_measures,
    parse_rule,
    score_rows,
    set_scale,
)

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Side = dict[str, list[Score]]


def scored(values: Sequence[float], measure: str = "nDCG@10") -> list[Score]:
    return [Score(measure, "scored", float(value)) for value in values]


def summary(*values: float, lost: int = 0) -> Summary:
    return aggregate([*scored(values), *[Score("nDCG@10", "judge_invalid", reason="why")] * lost])


def side(values: Sequence[float | None] | Values, measure: str = "Contains") -> Side:
    return {
        str(at): [Score(measure, "abstained")] if value is None else scored([value], measure)
        for at, value in enumerate(values)
    }


def of(run: Side) -> Summary:
    return aggregate(score for [score] in run.values())


def check(rule: str, *of: Summary, against: Comparisons | None = None, **options: Any) -> GateCheck:
    [found] = gate(of, [rule], GateOptions(**options), against=against).checks
    return found


def state(rule: str, *of: Summary, against: Comparisons | None = None, **options: Any) -> str:
    return check(rule, *of, against=against, **options).state


GOOD = summary(*[0.8, 0.9] * 20)


@pytest.mark.parametrize(
    "text",
    [
        *("nDCG@10>=0.7", "QADistance<=0.4", "nDCG@10>=baseline-0.02", "QADistance<=baseline+0.1"),
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
        ("nDCG@10>=good", "neither a number"),
        ("nDCG@10>=nan", "outside the scale"),
        ("nDCG@10<=0.7", "gets worse"),
        ("nDCG@10>=70", "outside the scale"),
        ("nDCG@10>=0", "every run meets"),
        ("nDCG@10>=baseline+0.1", "more than the baseline"),
        ("nDCG>=0.7@10", "neither a number"),
        ("nDCG@10>=baseline-1", "every run meets"),
        ("QADistance<=baseline+2", "every run meets"),
        ("Perplexity<=inf", "is not a number"),
        ("nDCG@10>=inf", "is not a number"),
    ],
)
def test_rules_that_test_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        parse_rule(text)


LOSSY = summary(*[0.9] * 18, lost=2)
BARE = Score("nDCG@10", "not_applicable", reason="no relevant document", no_gold=True)
SILENT = Score("nDCG@10", "not_applicable", reason="the row has no response")
MANY = scored([at % 2 / 4 + 0.7 for at in range(40)])
ALONE = aggregate([Score("nDCG@10", "scored", 1.0), *[BARE] * 999])
FLOOR = "coverage 90.0% is below the floor, 95.0% (judge_invalid 2)"
TOO_FEW = "too few rows have a score: 1; at least 10 are required (999 have no gold for it)"


@pytest.mark.parametrize(
    ("of", "rule", "options", "state", "said"),
    [
        (GOOD, "nDCG@10>=0.85", {}, "passed", ""),
        (GOOD, "nDCG@10>=0.9", {}, "failed", "mean 0.8500 on 40 rows"),
        # the interval may have to clear the threshold
        (GOOD, "nDCG@10>=0.84", {}, "passed", ""),
        (GOOD, "nDCG@10>=0.84", {"sure": True}, "failed", "reaches below 0.84"),
        (GOOD, "nDCG@10>=0.8", {"sure": True}, "passed", ""),
        (summary(0.9), "nDCG@10>=0.8", {"sure": True}, "untrusted", ""),
        # too little coverage is neither passed nor failed; what is missed even at best has failed
        (LOSSY, "nDCG@10>=0.7", {}, "untrusted", FLOOR),
        (LOSSY, "nDCG@10>=0.7", {"floor": 0.9}, "passed", ""),
        (summary(lost=3), "nDCG@10>=0.7", {}, "untrusted", ""),
        (summary(*[0.1] * 9, lost=1), "nDCG@10>=0.7", {}, "failed", "at best 0.19"),
        (GOOD, "MRR>=0.7", {}, "untrusted", ""),
        (GOOD, "nDCG@10>=0.7", {"calibrated": True}, "passed", ""),
        # rows without gold are no lack of coverage, silent ones are
        (
            aggregate([*MANY, *[BARE] * 10]),
            "nDCG@10>=0.7",
            {},
            "passed",
            "10 without gold left out",
        ),
        (aggregate([*MANY, *[SILENT] * 10]), "nDCG@10>=0.7", {}, "untrusted", ""),
        (aggregate([BARE] * 3), "nDCG@10>=0.7", {}, "untrusted", ""),
        (ALONE, "nDCG@10>=0.7", {}, "untrusted", TOO_FEW),
        (ALONE, "nDCG@10>=0.7", {"least": 1}, "passed", ""),
        (summary(*[0.8] * 10), "nDCG@10>=0.7", {}, "passed", ""),
        (GOOD, "nDCG@10>=baseline", {}, "untrusted", ""),
    ],
)
def test_thresholds(of: Summary, rule: str, options: dict[str, Any], state: str, said: str) -> None:
    found = check(rule, of, **options)
    assert found.state == state
    assert said in found.reason
    if said in (FLOOR, TOO_FEW):
        assert found.reason == said


def test_a_failure_is_not_hidden_by_what_is_unknown_and_rows_without_gold_are_counted() -> None:
    found = gate([GOOD], ["nDCG@10>=0.7", "nDCG@10>=0.9", "MRR>=0.5"])
    assert found.state == "failed"
    assert [check.state for check in found.checks] == ["passed", "failed", "untrusted"]
    with pytest.raises(MeasureError, match="no rule"):
        gate([GOOD], [])
    some = aggregate([*MANY, *[BARE] * 10])
    assert (some.n, some.no_gold, some.coverage, ALONE.coverage) == (40, 10, 1.0, 1.0)
    assert some.worst == some.best == pytest.approx(some.mean)


# -- Judges ----------------------------------------------------------------------------------------


def rubric_summary(*values: float) -> Summary:
    tally = Tally(set_scale(parse_measure("Rubric(tone)"), MeasureScale(0, 2)))
    for score in scored(values, "Rubric(tone)"):
        tally.add(score)
    return tally.summary()


FRIENDLY, RULE = rubric_summary(*[2, 1] * 20), ["Rubric(tone)>=1.4"]
DOUBT = "its passport on own does not show that it can be trusted"
CHECKED = JudgeCheck(trusted=True)
DOUBTED = JudgeCheck(doubt=DOUBT)


@pytest.mark.parametrize(
    ("judge", "options", "state", "reason"),
    [
        (None, {}, "passed", None),
        (None, {"calibrated": True}, "untrusted", None),
        (CHECKED, {"calibrated": True}, "passed", None),
        (DOUBTED, {"calibrated": True}, "untrusted", DOUBT),
        (DOUBTED, {}, "passed", None),
    ],
)
def test_a_judge_is_believed_as_far_as_it_was_checked_against_people(
    judge: JudgeCheck | None, options: dict[str, Any], state: str, reason: str | None
) -> None:
    known = {} if judge is None else {"Rubric(tone)": judge}
    found = gate([FRIENDLY], RULE, GateOptions(**options), checked=known)
    assert found.state == state
    assert reason in (None, found.checks[0].reason)
    if not options:
        warned = DOUBT if judge else "was never checked against people"
        assert warned in found.warnings[0]
    if judge is CHECKED or reason == DOUBT:
        assert not found.warnings


def test_a_rule_warns_once_and_knows_the_scale() -> None:
    found = gate([FRIENDLY, GOOD], [*RULE, "Rubric(tone)>=1.2", "nDCG@10>=0.7"])
    assert found.state == "passed"
    [warning] = found.warnings
    assert warning.startswith("Rubric(tone): its judge was never checked against people")
    assert [bool(check.warning) for check in found.checks] == [True, True, False]
    for rule, said in (("Rubric(tone)>=3", "outside the scale"), ("Rubric(tone)>=0", "every run")):
        with pytest.raises(MeasureError, match=said):
            gate([rubric_summary(2, 1)], [rule])


# -- Baselines -------------------------------------------------------------------------------------


def test_not_worse_than_a_baseline() -> None:
    base = np.array([0.5, 0.6, 0.7, 0.8] * 30)
    slightly = base - np.where(np.arange(120) % 2, 0.02, 0.0)
    few = [0.3, 0.8, 0.6, 0.9, 0.5, 0.4, 0.8, 0.9]
    for values, rule, found, said in (
        (slightly, "nDCG@10>=baseline-0.05", "passed", ""),
        (slightly, "nDCG@10>=baseline", "failed", "may be beyond 0"),
        (base - 0.1, "nDCG@10>=baseline", "failed", "is beyond 0"),
        (few, "nDCG@10>=baseline-0.05", "failed", "may be beyond 0.05"),
    ):
        against = compare_rows(side(base[: len(values)], "nDCG@10"), side(values, "nDCG@10"))
        one = check(rule, against=against, least=8)
        assert one.state == found
        assert said in one.reason
    lossy = compare_rows(
        side([0.5, 0.6, 0.7, 0.8], "nDCG@10"), side([0.5, 0.6, None, 0.8], "nDCG@10")
    )
    one = check("nDCG@10>=baseline-0.1", against=lossy)
    assert (one.state, "75.0%" in one.reason) == ("untrusted", True)
    assert state("MRR>=baseline", against=lossy) == "untrusted"
    for count, least, due in ((1, 1, 0), (5, 1, 0), (6, 1, 1), (9, 10, 0), (10, 10, 1)):
        same = side(([0.5, 0.6] * 5)[:count], "nDCG@10")
        passed = state("nDCG@10>=baseline-0.5", against=compare_rows(same, same), least=least)
        assert passed == ("untrusted", "passed")[due]
    sides = side([0.5, 0.6] * 20, "nDCG@10"), side([0.9, 0.8] * 20, "nDCG@10")
    for first, second in (sides, sides[::-1]):
        against = compare_rows(first, second, incomparable={"nDCG@10": "other judges"})
        one = check("nDCG@10>=baseline-0.05", against=against)
        assert (one.state, one.reason) == ("untrusted", "other judges")


def test_equal_rows_pass_no_gate_before_there_are_enough_of_them() -> None:
    for margin, due in ((0.01, 368), (0.02, 183), (0.05, 72), (0.1, 36)):
        assert least_rows(margin) == due
        for count, wanted in ((10, "failed"), (due - 1, "failed"), (due, "passed")):
            same = compare_rows(side([1.0] * count), side([1.0] * count))
            assert state(f"Contains>=baseline-{margin}", against=same) == wanted
    ten = compare_rows(side([1.0] * 10), side([1.0] * 10))
    found = check("Contains>=baseline-0.01", against=ten)
    assert found.reason.startswith("difference +0.0000 (-0.3085 to +0.3085)")
    assert "368 rows" in found.hint
    assert "there are 10" in found.hint
    assert "only a gain can pass" in check("Contains>=baseline", against=ten).hint
    gained = compare_rows(side([0.0] * 10), side([1.0] * 10))
    assert state("Contains>=baseline", against=gained) == "passed"
    same = compare_rows(side([5.0] * 500, "Perplexity"), side([5.0] * 500, "Perplexity"))
    endless = check("Perplexity<=baseline+1", against=same)
    assert endless.state == "untrusted"
    assert "unbounded scale" in endless.reason


# -- Silence and abstentions -----------------------------------------------------------------------


def silent(lost: int, of: int, *rest: float) -> Side:
    return side([*rest, *[1.0] * (of - lost), *[None] * lost])


RULES = ["Contains>=0.97", "Contains>=baseline-0.02"]


def test_silence_does_not_pass_where_wrong_answers_would_fail() -> None:
    whole = side([1.0] * 400)

    def outcome(run: Side, **options: Any) -> list[str]:
        found = gate([of(run)], RULES, GateOptions(**options), against=compare_rows(whole, run))
        return [check.state for check in found.checks]

    assert outcome(whole) == ["passed", "passed"]
    assert outcome(side([1.0] * 380 + [0.0] * 20)) == ["failed", "failed"]
    assert outcome(silent(20, 400)) == ["untrusted", "untrusted"]
    # one silent row cannot turn either rule; with `sure` the whole interval must hold
    assert outcome(silent(1, 400)) == ["passed", "passed"]
    assert outcome(silent(9, 400), sure=True)[0] == "untrusted"
    assert outcome(silent(9, 400))[0] == "passed"
    # what fails on the rows that have a score stays failed
    assert outcome(silent(4, 360, *[0.0] * 40)) == ["failed", "failed"]
    # lost rows of the baseline count as its best
    right = compare_rows(silent(15, 400), whole)
    assert state(RULES[1], against=right) == "passed"  # all new answers are right
    half = compare_rows(silent(15, 400), side([1.0] * 385 + [0.0] * 15))
    found = check(RULES[1], against=half)
    assert found.state == "untrusted"
    assert "15 rows lack a score in one of the two" in found.reason
    # without an end of the scale lost rows could be anything
    endless = scored([5.0 + at % 3 for at in range(99)], "Perplexity")
    assert state("Perplexity<=8", aggregate(endless)) == "passed"
    lost = Score("Perplexity", "errored", reason="no reply")
    found = check("Perplexity<=8", aggregate([*endless, lost]))
    assert found.state == "untrusted"
    assert found.reason.endswith("a score: on an unbounded scale they could reverse it")


def test_abstaining_loses_nothing_where_a_row_cannot_be_answered() -> None:
    right = Score("Contains", "abstained", unanswerable=True)
    whole = side([1.0] * 400)
    quiet = {**side([1.0] * 380), **{str(at): [right] for at in range(380, 400)}}
    found = of(quiet)
    assert (found.coverage, found.worst, found.unanswerable, found.lost) == (1.0, 1.0, 20, {})
    against = compare_rows(whole, quiet)
    one = against["Contains"]
    assert (one.lost, one.unanswerable, one.coverage, one.lowest) == (0, 20, 1.0, 0.0)
    assert gate([found], RULES, against=against).state == "passed"


MISSED = Score("TokenF1", "abstained", reason="the system gave no answer", missed=True)


def f1(*values: float, missed: int = 0) -> Summary:
    return aggregate([*scored(values, "TokenF1"), *[MISSED] * missed])


def test_an_abstention_is_missed_where_the_row_has_gold_and_both_means_are_kept() -> None:
    def token_f1(**fields: object) -> Score:
        row = Row("r", "Who?", "", **{"metadata": {"abstained": True}, **fields})  # type: ignore[arg-type]
        [[score]] = score_rows([row], parse_measures("TokenF1"))
        return score

    known = token_f1(reference="Ada")
    assert (known.missed, known.state, known.value) == (True, "abstained", None)
    refused = token_f1(reference="none", metadata={"abstained": True, "answerable": False})
    assert (refused.missed, refused.unanswerable) == (False, True)
    assert token_f1().no_gold
    found = f1(0.8, 0.6, missed=1)
    assert (found.mean, found.coverage) == pytest.approx((0.7, 2 / 3))
    assert found.mean_with_abstained == pytest.approx(1.4 / 3)
    assert (found.n, found.missed, found.states["abstained"]) == (2, 1, 1)
    plain = f1(0.8, 0.6)
    assert plain.deciding == (plain.mean, plain.low, plain.high)
    assert plain.mean_with_abstained == plain.mean
    # the worst value is that of the scale
    judged = Score("Faithfulness", "abstained", missed=True)
    found = aggregate([*scored([5, 4], "Faithfulness"), judged])
    assert found.mean_with_abstained == pytest.approx(10 / 3)
    found = aggregate([*scored([5], "Perplexity"), Score("Perplexity", "abstained", missed=True)])
    assert (found.mean_with_abstained, found.deciding[0]) == (None, 5)


def abstaining(missed: int) -> Comparison:
    before = side([0.5 + at % 5 / 10 for at in range(50)], "TokenF1")
    after = {key: [MISSED] if int(key) < missed else before[key] for key in before}
    return compare_rows(before, after)["TokenF1"]


def test_a_system_that_abstains_more_is_worse() -> None:
    found = abstaining(15)
    assert found.difference == 0
    assert (found.n, found.mean_a, found.mean_b) == (35, found.mean_b, found.mean_a)
    whole = found.with_abstained
    assert whole is not None
    assert whole.n == 50
    assert whole.difference == pytest.approx(-15 * 0.7 / 50)
    assert found.verdict == whole.verdict == "worse"
    said = " (15 abstained rows count as 0; +0.0000 on the 35 that both answered)."
    assert found.text.endswith(said)
    assert ". " not in found.text  # one sentence
    found = abstaining(3)
    assert found.deciding.difference == pytest.approx(-(0.5 + 0.6 + 0.7) / 50)
    assert found.moved == {"scored -> abstained": ("0", "1", "2")}
    assert abstaining(0).with_abstained is None


def test_a_gate_counts_abstentions_as_the_worst_value() -> None:
    few, many = f1(*[0.8] * 19, *[0.9] * 19, missed=1), f1(*[0.9] * 30, missed=10)
    found = check("TokenF1>=0.84", few)
    assert found.state == "failed"
    assert found.value == pytest.approx(few.mean_with_abstained)
    assert "1 abstention counts as 0: 0.8500 on the 38 answered" in found.reason
    assert state("TokenF1>=0.8", few) == "passed"
    assert state("TokenF1>=0.5", many) == "untrusted"
    assert state("TokenF1>=0.5", many, floor=0.5) == "passed"
    assert state("TokenF1>=0.7", many) == "failed"
    values = side([0.8] * 100, "TokenF1")
    for missed, due in ((0, "passed"), (40, "failed")):
        after = {key: [MISSED] if int(key) < missed else values[key] for key in values}
        against = compare_rows(values, after)
        assert state("TokenF1>=baseline-0.2", f1(*[0.8] * 12), against=against, floor=0.5) == due
