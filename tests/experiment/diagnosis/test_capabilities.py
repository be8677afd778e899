"""Curves from results alone: points, controls, clusters, judged accuracy, what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragwright.core import Row, Score, TestsetError
from ragwright.experiment import Curve, RowResult, capability_curves, evaluation_of
from ragwright.measure import MeasureSetup, parse_measures


def row(suite: str, dose: float, base: str, response: str | None, **metadata: object) -> Row:
    return Row(
        f"{suite}/{dose:g}/{base}",
        f"question {base}",
        response,
        "Rollo",
        metadata={"suite": suite, "dose": dose, "base": base, **metadata},  # type: ignore[dict-item]
    )


def curves(*rows: Row, judged: dict[str, float] | None = None, accuracy: str = "") -> list[Curve]:
    found = [
        RowResult(
            one.id,
            (),
            (Score("Pairwise", "scored", (judged or {}).get(one.id, 3.0)),),
            one,
        )
        for one in rows
    ]
    evaluation = evaluation_of(found, parse_measures("Pairwise"), name="run")
    return list(capability_curves(evaluation, accuracy=accuracy))


def test_a_point_has_its_exact_interval_and_its_control() -> None:
    answers = ["It was Rollo."] * 3 + ["It was Odo."]
    rows = [row("noise", 0.2, str(n), text) for n, text in enumerate(answers)]
    rows += [row("closed_book", 0, str(n), t) for n, t in enumerate(["Rollo", "?", "?", "Rollo"])]
    [curve] = curves(*rows)
    [point] = curve.points
    assert (point.dose, point.n, point.questions, point.mean) == (0.2, 4, 4, 0.75)
    # Clopper and Pearson for 3 of 4, from tables
    assert point.low == pytest.approx(0.1941, abs=1e-4)
    assert point.high == pytest.approx(0.9937, abs=1e-4)
    assert point.closed_book == 0.5
    assert point.above is not None
    assert point.above == pytest.approx((0 + 1 + 1 - 1) / 4)
    assert point.above_low is not None
    assert point.above_high is not None
    assert point.above_low < point.above < point.above_high
    assert curve.change is None  # a single dose


def test_an_answer_that_abstained_is_not_accurate_and_is_counted() -> None:
    rows = [
        row("noise", 0.0, "1", "The passages do not say, but Rollo.", abstained=True),
        row("noise", 0.0, "2", "Rollo", abstained=False),
    ]
    [curve] = curves(*rows)
    assert (curve.points[0].mean, curve.points[0].abstained) == (0.5, 0.5)
    assert curve.points[0].closed_book is None  # no control was asked


def test_a_row_without_an_answer_has_no_value() -> None:
    [curve] = curves(row("noise", 0.0, "1", None), row("noise", 0.0, "2", ""))
    assert (curve.points[0].n, curve.points[0].mean) == (1, 0.0)  # an empty answer is one
    assert curve.points[0].without == {"not_applicable": 1}


def test_parts_are_scored_one_by_one() -> None:
    parts = {"part_1": ("Rollo",), "part_2": ("911", "the year 911")}
    rows = [
        row("integration", 0.0, "1", "Rollo, in 911", **parts),
        row("integration", 0.0, "2", "Rollo", **parts),
    ]
    whole, share = curves(*rows)
    assert (whole.quantity, whole.points[0].mean) == ("accuracy", 0.5)
    assert (share.quantity, share.points[0].mean) == ("share of parts", 0.75)


def test_several_rows_of_a_question_are_one_cluster() -> None:
    same = [
        replace(row("noise", 0.2, base, text), id=f"{base}-{n}")
        for base, text in (("1", "Rollo"), ("2", "Odo"), ("3", "Rollo"))
        for n in range(4)
    ]
    [curve] = curves(*same)
    [point] = curve.points
    assert (point.n, point.questions) == (12, 3)
    alone = curves(
        *(replace(one, id=one.id, metadata={**one.metadata, "base": one.id}) for one in same)
    )
    [free] = alone[0].points
    assert point.low is not None
    assert point.high is not None
    assert free.low is not None
    assert free.high is not None
    assert point.high - point.low > free.high - free.low


def test_the_change_between_the_ends_is_paired() -> None:
    rows = [row("noise", 0.0, str(n), "Rollo") for n in range(6)]
    rows += [row("noise", 1.0, str(n), "Odo" if n < 3 else "Rollo") for n in range(6)]
    [curve] = curves(*rows)
    assert curve.change == -0.5
    assert curve.change_low is not None
    assert curve.change_high is not None
    assert -1 <= curve.change_low < -0.5 < curve.change_high < 0.2


def test_a_judged_measure_can_stand_for_accuracy() -> None:
    rows = [row("noise", 0.0, "1", "Rollo"), row("noise", 0.0, "2", "Odo")]
    rows.append(row("closed_book", 0.0, "1", "?"))
    judged = {rows[0].id: 5.0, rows[1].id: 2.0, rows[2].id: 1.0}
    [curve] = curves(*rows, judged=judged, accuracy="Pairwise")
    assert (curve.measure, curve.points[0].mean) == ("Pairwise", 3.5)
    assert (curve.points[0].above, curve.points[0].paired) == (4.0, 1)
    with pytest.raises(TestsetError, match="no scores of Faithfulness"):
        curves(*rows, accuracy="Faithfulness")


def test_false_alarms_stand_at_dose_zero() -> None:
    said = "There is a factual error in the passages. It was Rollo."
    rows = [
        row("counterfactual", 0.0, "1", said, falsified=False, fake=("Odo",)),
        row("counterfactual", 0.0, "2", "Rollo", falsified=False, fake=("Odo",)),
        row("counterfactual", 1.0, "1", said, falsified=True, fake=("Odo",)),
        row("counterfactual", 1.0, "2", "Odo", falsified=True, fake=("Odo",)),
    ]
    reported, corrected, everywhere, fooled, right = curves(*rows)
    assert [point.mean for point in reported.points] == [0.5, 0.5]
    assert [(point.n, point.mean) for point in corrected.points] == [(0, None), (1, 1.0)]
    assert (everywhere.points[1].n, everywhere.points[1].mean) == (2, 0.5)
    assert [point.mean for point in fooled.points] == [0.0, 0.5]
    assert [point.mean for point in right.points] == [1.0, 0.5]


def test_cues_are_those_of_the_setup_where_the_run_stored_no_score() -> None:
    one = row("rejection", 1.0, "1", "Non saprei.", answerable=False)
    evaluation = evaluation_of(
        [RowResult(one.id, (), (Score("Pairwise", "scored", 1.0),), one)],
        parse_measures("Pairwise"),
    )
    plain = capability_curves(evaluation)[0]
    own = capability_curves(evaluation, setup=MeasureSetup(rejection_cues=("non saprei",)))[0]
    assert (plain.points[0].mean, own.points[0].mean) == (0.0, 1.0)


def test_a_run_without_suites_is_refused_and_so_is_a_dose_that_is_no_number() -> None:
    with pytest.raises(TestsetError, match="no row of the run"):
        curves(Row("1", "q", "a"))
    with pytest.raises(TestsetError, match="has the dose"):
        curves(Row("1", "q", "a", "Rollo", metadata={"suite": "noise"}))


def test_an_own_suite_has_a_curve_too() -> None:
    [curve] = curves(row("typos", 1, "1", "Rollo"), row("typos", 2, "1", "Odo"))
    assert (curve.suite, curve.dose_name) == ("typos", "dose")
    assert [point.mean for point in curve.points] == [1, 0]
