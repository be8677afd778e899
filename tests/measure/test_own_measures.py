"""Measures and judges of plug-ins, held to their suites, and what they may get wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ragwright.core import MeasureError, PluginError, Row, Score
from ragwright.flow import Flow, Runner
from ragwright.measure import (
    Judge,
    MeasureSetup,
    Rubric,
    Verdict,
    check_setup,
    custom_measure,
    parse_measure,
    parse_measures,
    parse_rule,
    score_row,
)
from ragwright.testing import JudgeSuite, MeasureSuite

HERE = __name__


@custom_measure(needs=("response", "reference"), low=0, high=1, summary="Equal ends.")
def same_end(row: Row) -> bool:
    """True if response and reference end alike."""
    return (row.response or "")[-1:] == (row.reference or "")[-1:]


@custom_measure(needs=("response",), low=0, model="chat")
def asked_length(row: Row, setup: MeasureSetup) -> Flow[float | str]:
    """Stands for a measure that asks a model."""
    yield from ()
    return "too short to ask about" if len(row.response or "") < 3 else float(len(setup.model))


class LengthJudge(Judge):
    """Judges by length alone."""

    def judge(self, row: Row, rubric: Rubric, sample: int) -> Flow[Verdict]:
        yield from ()
        low, high = rubric.scale
        return Verdict(min(high, low + len(row.response or "") / 100), "by length")


class NoJudge(Judge):
    def judge(self, row: Row, rubric: Rubric, sample: int) -> Flow[Verdict]:
        yield from ()
        return Verdict(None, "no opinion") if row.id == "silent" else Verdict(99)


ROW = Row("1", "How?", response="By hand", reference="By hand")


class TestMeasure(MeasureSuite):
    measure = f"{HERE}:same_end"
    rows = (ROW,)


class TestMeasureOfAModel(MeasureSuite):
    measure = f"{HERE}:asked_length"
    rows = (ROW,)
    setup = MeasureSetup(model="openai:none")


class TestJudge(JudgeSuite):
    judge = f"{HERE}:LengthJudge"


def score(measure: str, row: Row, **setup: Any) -> Score:
    with Runner({}) as runner:
        [scored] = runner.run(score_row(row, parse_measures(measure), MeasureSetup(**setup)))
    return scored


def test_a_flow_may_say_why_there_is_no_value() -> None:
    row = Row("1", "How?", response="x")
    scored = score(f"{HERE}:asked_length", row, model="m")
    assert (scored.state, scored.reason) == ("not_applicable", "too short to ask about")
    assert "no model" in score(f"{HERE}:asked_length", ROW).reason


def test_a_judge_replaces_the_chat_model_for_rubrics_alone() -> None:
    row = Row("1", "How?", response="By hand", retrieved_contexts=("By hand.",))
    scored = score("Faithfulness", row, by=f"{HERE}:LengthJudge")
    assert (scored.state, scored.value, scored.detail) == ("scored", 1.07, "by length")
    assert "no model" in score("Claims", row, by=f"{HERE}:LengthJudge").reason


def test_a_verdict_off_the_scale_is_invalid() -> None:
    row = Row("1", "How?", response="By hand", retrieved_contexts=("By hand.",))
    scored = score("Faithfulness", row, by=f"{HERE}:NoJudge")
    assert (scored.state, scored.value) == ("judge_invalid", None)
    assert "99" in scored.reason
    silent = Row("silent", "How?", response="By hand", retrieved_contexts=("By hand.",))
    assert score("Faithfulness", silent, by=f"{HERE}:NoJudge").reason == "no opinion"


def test_a_judge_that_is_none_is_an_error_of_the_row() -> None:
    row = Row("1", "How?", response="By hand", retrieved_contexts=("By hand.",))
    scored = score("Faithfulness", row, by=f"{HERE}:same_end")
    assert scored.state == "errored"
    assert "is not a judge" in scored.reason


@pytest.mark.parametrize("name", [f"{HERE}:same_end", f"{HERE}:Absent", "absent"])
def test_a_judge_that_is_none_is_refused_before_the_first_row(name: str) -> None:
    with pytest.raises(PluginError, match=r"judge"):
        check_setup(parse_measures("Faithfulness"), MeasureSetup(by=name))
    check_setup(parse_measures("TokenF1"), MeasureSetup(by=name))


@custom_measure(needs=("response",), low=0, high=1)
def too_large(row: Row) -> float:
    """Returns what is off its scale."""
    return 14


def test_a_value_off_the_declared_scale_is_an_error_of_the_row() -> None:
    scored = score(f"{HERE}:too_large", ROW)
    assert (scored.state, scored.value) == ("errored", None)
    assert "14, off its scale of 0-1" in scored.reason


def test_a_rule_for_a_measure_that_is_not_imported_leaves_the_direction_open() -> None:
    assert not parse_rule(f"{HERE}:same_end<=0.5").upward
    assert parse_rule(f"{HERE}:same_end>=0.5").upward


def test_a_declaration_is_checked() -> None:
    with pytest.raises(MeasureError, match="needs must be a tuple of fields"):
        custom_measure(needs="response")
    with pytest.raises(MeasureError, match="no field 'respones'"):
        custom_measure(needs=("respones",))
    with pytest.raises(MeasureError, match="not a scale"):
        custom_measure(low=1, high=0)


def test_a_declared_scale_is_that_of_the_measure() -> None:
    measure = parse_measure(f"{HERE}:same_end")
    assert measure.known_scale is None  # not imported yet: a report reads it from the run
