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
ROW = Row("1", "How?", response="By hand", reference="By hand", retrieved_contexts=("By hand.",))


@custom_measure(needs=("response", "reference"), low=0, high=1, summary="Equal ends.")
def same_end(row: Row) -> bool:
    """True if response and reference end alike."""
    return (row.response or "")[-1:] == (row.reference or "")[-1:]


@custom_measure(needs=("response",), low=0, model="chat")
def asked_length(row: Row, setup: MeasureSetup) -> Flow[float | str]:
    """Stands for a measure that asks a model."""
    yield from ()
    return "too short to ask about" if len(row.response or "") < 3 else float(len(setup.model))


@custom_measure(needs=("response",), low=0, high=1)
def too_large(row: Row) -> float:
    """Returns what is off its scale."""
    return 14


class LengthJudge(Judge):
    """Judges by length alone; of the row "off" off the scale, of the row "silent" not at all."""

    def judge(self, row: Row, rubric: Rubric, sample: int) -> Flow[Verdict]:
        yield from ()
        if row.id in ("off", "silent"):
            return Verdict(99) if row.id == "off" else Verdict(None, "no opinion")
        low, high = rubric.scale
        return Verdict(min(high, low + len(row.response or "") / 100), "by length")


class TestMeasure(MeasureSuite):
    measure = f"{HERE}:same_end"
    rows = (ROW,)


class TestMeasureOfAModel(MeasureSuite):
    measure = f"{HERE}:asked_length"
    rows = (ROW,)
    setup = MeasureSetup(model="openai:none")


class TestJudge(JudgeSuite):
    judge = f"{HERE}:LengthJudge"


def score(measure: str, id_: str = "1", said: str = "By hand", by: str = "", m: str = "") -> Score:
    row = Row(id_, "How?", said, ROW.reference, ROW.retrieved_contexts)
    with Runner({}) as runner:
        flow = score_row(row, parse_measures(measure), MeasureSetup(by=by, model=m))
        return runner.run(flow)[0]


BY = f"{HERE}:LengthJudge"


@pytest.mark.parametrize(
    ("asked", "state", "value", "said"),
    [
        ((f"{HERE}:asked_length", "1", "x", "", "m"), "not_applicable", None, "too short to ask"),
        ((f"{HERE}:asked_length",), "not_applicable", None, "no model"),
        ((f"{HERE}:too_large",), "errored", None, "14, off its scale of 0-1"),
        (("Faithfulness", "1", "By hand", BY), "scored", 1.07, "by length"),
        (("Claims", "1", "By hand", BY), "not_applicable", None, "no model"),
        (("Faithfulness", "off", "By hand", BY), "judge_invalid", None, "99"),
        (("Faithfulness", "silent", "By hand", BY), "judge_invalid", None, "no opinion"),
        (("Faithfulness", "1", "By hand", f"{HERE}:same_end"), "errored", None, "is not a judge"),
    ],
)
def test_a_plug_in_gives_a_state(
    asked: tuple[str, ...], state: str, value: float | None, said: str
) -> None:
    found = score(*asked)
    assert (found.state, found.value) == (state, value)
    assert said in (found.reason or found.detail)


@pytest.mark.parametrize("name", [f"{HERE}:same_end", f"{HERE}:Absent", "absent"])
def test_a_judge_that_is_none_is_refused_before_the_first_row(name: str) -> None:
    with pytest.raises(PluginError, match=r"judge"):
        check_setup(parse_measures("Faithfulness"), MeasureSetup(by=name))
    check_setup(parse_measures("TokenF1"), MeasureSetup(by=name))


def test_a_measure_that_is_not_imported_leaves_direction_and_scale_open() -> None:
    assert not parse_rule(f"{HERE}:same_end<=0.5").upward
    assert parse_rule(f"{HERE}:same_end>=0.5").upward
    assert parse_measure(f"{HERE}:same_end").known_scale is None  # a report reads it from the run


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"needs": "response"}, "needs must be a tuple of fields"),
        ({"needs": ("respones",)}, "no field 'respones'"),
        ({"low": 1, "high": 0}, "not a scale"),
    ],
)
def test_a_declaration_is_checked(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        custom_measure(**declared)
