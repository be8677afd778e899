"""How a refusal, a noticed error and a mended one are recognised."""

from __future__ import annotations

import pytest

from ragwright.core import Row, Score
from ragwright.measure import MeasureSetup, parse_measures, score_rows

MEASURES = parse_measures("RejectionRate, ErrorDetection, ErrorCorrection")


def scores(response: str, setup: MeasureSetup | None = None, **fields: object) -> tuple[Score, ...]:
    row = Row("r", "?", response, "Rome", **fields)  # type: ignore[arg-type]
    (found,) = score_rows([row], MEASURES, setup)
    return found


@pytest.mark.parametrize(
    ("response", "rejected"),
    [
        ("I can not answer the question because of the insufficient information in documents.", 1),
        ("I CAN’T   answer, sorry.", 1),
        ("Je ne peux pas répondre à cette question.", 1),
        ("The capital is Rome.", 0),
        ("There is sufficient information: Rome.", 0),
        ("The answer cannot be doubted.", 0),
    ],
)
def test_refusals_by_their_cues(response: str, rejected: int) -> None:
    assert scores(response)[0].value == rejected


def test_cues_are_settings() -> None:
    setup = MeasureSetup(rejection_cues=("no idea",), error_cues=("mistake",))
    assert scores("No idea.", setup)[0].value == 1
    assert scores("I cannot answer.", setup)[0].value == 0
    assert scores("A mistake: it is Rome.", setup)[1].value == 1


def test_correction_counts_where_an_error_was_pointed_out() -> None:
    mended = scores("There are factual errors in the documents. It is Rome.")
    assert [score.value for score in mended] == [0, 1, 1]
    noticed = scores("There are factual errors in the documents. It is Paris.")
    assert [score.value for score in noticed] == [0, 1, 0]
    missed = scores("It is Rome.")
    assert missed[1].value == 0
    assert missed[2].state == "not_applicable"


def test_rows_that_test_nothing_are_left_out() -> None:
    assert scores("Rome.", metadata={"answerable": True})[0].state == "not_applicable"
    untouched = scores("Rome.", metadata={"falsified": False})
    assert untouched[1].state == untouched[2].state == "not_applicable"
