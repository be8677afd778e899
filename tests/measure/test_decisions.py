"""Rates of gates and verdicts under nulls that a bootstrap or a test alone gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ragwright.app import command_line
from ragwright.core import Row, Score
from ragwright.experiment import RowResult, row_records
from ragwright.measure import (
    Comparison,
    Comparisons,
    GateOptions,
    MeasureScale,
    aggregate,
    compare_rows,
    gate,
    least_rows,
    parse_measures,
    score_rows,
)
from ragwright.report import row_file

TRIES = 200
Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, int], Values]


def most(rate: float, tries: int = TRIES) -> float:
    """A rate and three standard errors of what so many tries show of it."""
    return rate + 3 * float(np.sqrt(rate * (1 - rate) / tries))


def side(
    values: Sequence[float | None] | Values, measure: str = "Contains"
) -> dict[str, list[Score]]:
    return {
        str(at): [
            Score(measure, "abstained") if value is None else Score(measure, "scored", float(value))
        ]
        for at, value in enumerate(values)
    }


def of_differences(values: Values, seed: int = 0) -> Comparisons:
    """Two runs whose scores, from 0 to 1, differ by these values."""
    kept = np.clip(values, -1, 1)
    a = np.where(kept < 0, 1.0, 0.0)
    return compare_rows(side(a, "TokenF1"), side(a + kept, "TokenF1"), seed=seed)


def likert(values: Values, seed: int) -> Comparison:
    [found] = compare_rows(
        side([3.0] * len(values), "Faithfulness"), side(3.0 + values, "Faithfulness"), seed=seed
    ).measures
    return found


def state(against: Comparisons, rule: str) -> str:
    return gate([], [rule], against=against).state


def test_equal_rows_pass_no_gate_before_there_are_enough_of_them() -> None:
    for margin, due in ((0.01, 368), (0.02, 183), (0.05, 72), (0.1, 36)):
        assert least_rows(margin) == due
        for count, wanted in ((10, "failed"), (due - 1, "failed"), (due, "passed")):
            same = compare_rows(side([1.0] * count), side([1.0] * count))
            assert state(same, f"Contains>=baseline-{margin}") == wanted
    ten = compare_rows(side([1.0] * 10), side([1.0] * 10))
    [check] = gate([], ["Contains>=baseline-0.01"], against=ten).checks
    assert check.reason.startswith("difference +0.0000 (-0.3085 to +0.3085)")
    assert "368 rows" in check.hint
    assert "there are 10" in check.hint
    [check] = gate([], ["Contains>=baseline"], against=ten).checks
    assert "only a gain can pass" in check.hint
    gained = compare_rows(side([0.0] * 10), side([1.0] * 10))
    assert state(gained, "Contains>=baseline") == "passed"


def test_equal_rows_on_a_scale_without_an_end_prove_nothing() -> None:
    same = compare_rows(side([5.0] * 500, "Perplexity"), side([5.0] * 500, "Perplexity"))
    [check] = gate([], ["Perplexity<=baseline+1"], against=same).checks
    assert check.state == "untrusted"
    assert "unbounded scale" in check.reason


def rare(size: float, share: float) -> Draw:
    return lambda draw, n: np.where(draw.random(n) < share, -size, 0.0)


def noisy_rare(draw: np.random.Generator, n: int) -> Values:
    """Most rows gain a little, with noise; 3 % lose nearly everything."""
    return np.where(draw.random(n) < 0.03, -0.9, draw.normal((0.027 - 0.02) / 0.97, 0.05, n))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, 37, 100, 300])
@pytest.mark.parametrize(
    "losses", [rare(0.1, 0.2), rare(1.0, 0.02), noisy_rare], ids=["small", "whole", "noisy"]
)
def test_a_loss_of_the_margin_rarely_passes(losses: Draw, rows: int) -> None:
    """The mean loss is the margin, 0.02."""
    draw = np.random.default_rng(rows)
    tries = TRIES if rows < 200 else TRIES // 2
    passed = sum(
        state(of_differences(np.round(losses(draw, rows), 6), at), "TokenF1>=baseline-0.02")
        == "passed"
        for at in range(tries)
    )
    print(f"{rows} rows: {passed / tries:.1%} pass")
    assert passed / tries <= most(0.025, tries)


def skewed(draw: np.random.Generator, n: int) -> Values:
    """90 % gain 0.05 and 10 % lose 0.45: the mean difference is 0."""
    return np.where(draw.random(n) < 0.1, -0.45, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, 20, 50])
def test_many_small_gains_do_not_hide_a_few_large_losses(rows: int) -> None:
    draw = np.random.default_rng(rows)
    found = [of_differences(skewed(draw, rows), at)["TokenF1"].verdict for at in range(TRIES)]
    better, worse = found.count("better") / TRIES, found.count("worse") / TRIES
    print(f"{rows} rows: better {better:.1%}, worse {worse:.1%}")
    assert better <= most(0.025)
    assert worse <= most(0.025)
    [gains] = of_differences(np.full(rows, 0.05)).measures
    assert gains.p is not None
    assert gains.p_rare is not None
    assert gains.p < 0.01 < gains.p_rare
    assert "rare kinds of rows that are not in this sample could reverse it" in gains.text


def five_points(draw: np.random.Generator, n: int) -> Values:
    return draw.choice([2.0, 1, 0, -1, -2], size=n, p=[0.14, 0.34, 0.34, 0.14, 0.04])


def hits(draw: np.random.Generator, n: int) -> Values:
    return draw.choice([1.0, 0, -1], size=n, p=[0.15, 0.8, 0.05])


def shares(draw: np.random.Generator, n: int) -> Values:
    return np.clip(draw.normal(0.05, 0.1, n), -1, 1)


@pytest.mark.slow
def test_ordinary_differences_are_found_as_often_as_by_the_test_alone() -> None:
    for name, rows, draws, least in (
        ("1-5, +0.4", 50, five_points, 0.6),
        ("0/1, +0.1", 100, hits, 0.45),
        ("0-1, +0.05", 50, shares, 0.85),
    ):
        draw = np.random.default_rng(rows)
        one = likert if draws is five_points else lambda x, at: of_differences(x, at)["TokenF1"]
        found = [one(np.round(draws(draw, rows), 6), at) for at in range(TRIES)]
        shown = sum(c.verdict == "better" for c in found) / TRIES
        tested = sum((c.p or 0.0) <= 0.05 and (c.difference or 0.0) > 0 for c in found) / TRIES
        print(f"{name}: {rows} rows, better {shown:.1%}, by the test alone {tested:.1%}")
        assert shown >= least
        assert tested - shown <= 0.05


def silent(lost: int, of: int = 100) -> list[float | None]:
    return [*repeat(1.0, of - lost), *repeat(None, lost)]


def test_silence_does_not_pass_where_wrong_answers_would_fail() -> None:
    whole, wrong = side([1.0] * 400), side([1.0] * 380 + [0.0] * 20)
    quiet = side(silent(20, 400))
    rules = ["Contains>=0.97", "Contains>=baseline-0.02"]

    def outcome(run: dict[str, list[Score]], options: GateOptions | None = None) -> list[str]:
        summary = aggregate(score for [score] in run.values())
        found = gate([summary], rules, options, against=compare_rows(whole, run))
        return [check.state for check in found.checks]

    assert outcome(whole) == ["passed", "passed"]
    assert outcome(wrong) == ["failed", "failed"]
    assert outcome(quiet) == ["untrusted", "untrusted"]
    # one silent row cannot turn either rule; with `sure` the whole interval must hold
    assert outcome(side(silent(1, 400))) == ["passed", "passed"]
    assert outcome(side(silent(9, 400)), GateOptions(sure=True))[0] == "untrusted"
    assert outcome(side(silent(9, 400)))[0] == "passed"
    # what fails on the rows that have a score stays failed
    assert outcome(side([*[0.0] * 40, *silent(4, 360)])) == ["failed", "failed"]


def test_lost_rows_of_the_baseline_count_as_its_best() -> None:
    whole = side([1.0] * 400)
    found = compare_rows(side(silent(15, 400)), whole)
    assert state(found, "Contains>=baseline-0.02") == "passed"  # all new answers are right
    half = side([1.0] * 385 + [0.0] * 15)
    found = compare_rows(side(silent(15, 400)), half)
    [check] = gate([], ["Contains>=baseline-0.02"], against=found).checks
    assert check.state == "untrusted"
    assert "15 rows lack a score in one of the two" in check.reason


def test_without_an_end_of_the_scale_lost_rows_could_be_anything() -> None:
    scores = [Score("Perplexity", "scored", 5.0 + at % 3) for at in range(99)]
    lost = Score("Perplexity", "errored", reason="no reply")
    assert gate([aggregate(scores)], ["Perplexity<=8"]).state == "passed"
    [check] = gate([aggregate([*scores, lost])], ["Perplexity<=8"]).checks
    assert (check.state, check.reason[-52:]) == (
        "untrusted",
        "a score: on an unbounded scale they could reverse it"[-52:],
    )


def test_abstaining_on_an_unanswerable_row_loses_nothing() -> None:
    right = Score("Contains", "abstained", unanswerable=True)
    known, whole = side([1.0] * 380), side([1.0] * 400)
    quiet = {**known, **{str(at): [right] for at in range(380, 400)}}
    found = aggregate(score for [score] in quiet.values())
    assert (found.coverage, found.worst, found.unanswerable, found.lost) == (1.0, 1.0, 20, {})
    against = compare_rows(whole, quiet)
    one = against["Contains"]
    assert (one.lost, one.unanswerable, one.coverage, one.lowest) == (0, 20, 1.0, 0.0)
    outcome = gate([found], ["Contains>=0.97", "Contains>=baseline-0.02"], against=against)
    assert outcome.state == "passed"


@pytest.mark.slow
def test_a_row_says_itself_whether_it_can_be_answered(tmp_path: Path) -> None:
    """By the marks of rows, through a file of scores, to the exit code of the gate."""
    rows = [Row(f"r{n}", "q?", response="yes", reference="yes") for n in range(190)]
    for answerable, code in ((False, 0), (True, 101)):
        quiet = [
            Row(
                f"s{n}",
                "q?",
                response="I do not know.",
                reference="unknown",
                metadata={"abstained": True, "answerable": answerable},
            )
            for n in range(10)
        ]
        results = [
            RowResult(row.id, (), tuple(scores))
            for row, scores in zip(
                [*rows, *quiet],
                score_rows([*rows, *quiet], parse_measures("Contains")),
                strict=True,
            )
        ]
        assert results[-1].scores[0].state == "abstained"
        path = tmp_path / f"{answerable}.csv"
        path.write_bytes(row_file(row_records(results), ".csv")[0])
        words = ["gate", str(path), "--rule", "Contains>=0.97"]
        found = CliRunner().invoke(command_line(), words)
        assert found.exit_code == code, found.output


@pytest.mark.slow
def test_what_would_settle_a_difference_is_a_range_that_holds_the_true_need() -> None:
    """True difference 0.1, standard deviation 0.4, 50 rows: 76 more are needed."""
    need = (1.959964 + 0.841621) ** 2 * 0.4**2 / 0.1**2 - 50
    draw, held, said, points = np.random.default_rng(8), 0, 0, []
    for at in range(TRIES):
        [found] = compare_rows(
            side([3.0] * 50, "Faithfulness"),
            side(3.0 + draw.normal(0.1, 0.4, 50), "Faithfulness"),
            scales={"Faithfulness": MeasureScale(1, 5)},
            seed=at,
        ).measures
        if not found.more_rows:
            assert found.more_rows_high == found.more_rows
            assert "more rows" not in found.outlook()
            continue
        assert found.more_rows_low is not None
        assert found.more_rows_high is not None
        assert found.more_rows_low <= found.more_rows <= found.more_rows_high
        assert found.text.endswith(f"; {found.outlook()}.")
        said, held = said + 1, held + (found.more_rows_low <= need <= found.more_rows_high)
        points.append(found.more_rows)
    ends = np.quantile(points, [0.1, 0.9])
    print(f"need {need:.0f}: {said} ranges, {held / said:.0%} hold it; points {ends}")
    assert said > 40
    assert held / said >= 0.8


@pytest.mark.slow
def test_nothing_would_settle_what_cannot_be_told_from_nothing() -> None:
    draw, said = np.random.default_rng(9), 0
    for at in range(TRIES):
        found = likert(np.clip(np.round(draw.normal(0, 0.6, 50)), -2, 2), at)
        said += "more rows" in found.outlook()
    print(f"no difference: {said / TRIES:.0%} name a number of rows")
    assert said / TRIES <= most(0.15)  # beyond the 10 % points, and not shown
    assert likert(np.zeros(50), 0).more_rows is None
