"""How a refusal, a noticed error and a mended one are recognised."""

from __future__ import annotations

import pytest

from ragwright.core import Row, Score
from ragwright.measure import MeasureSetup, parse_measures, score_rows

MEASURES = parse_measures("RejectionRate, ErrorDetection, ErrorCorrection, FalseRejectionRate")
MARKED = {"answerable": False, "falsified": True}


def scores(response: str, setup: MeasureSetup | None = None, **fields: object) -> tuple[Score, ...]:
    row = Row("r", "?", response, "Rome", **{"metadata": MARKED, **fields})  # type: ignore[arg-type]
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
    assert [score.value for score in mended[:3]] == [0, 1, 1]
    noticed = scores("There are factual errors in the documents. It is Paris.")
    assert [score.value for score in noticed[:3]] == [0, 1, 0]
    missed = scores("It is Rome.")
    assert missed[1].value == 0
    assert missed[2].state == "not_applicable"


@pytest.mark.parametrize("answerable", [True, None])
def test_refusing_is_right_only_where_there_is_no_answer(answerable: bool | None) -> None:
    metadata = {} if answerable is None else {"answerable": answerable}
    rejects, *_, falsely = scores("I cannot answer.", metadata=metadata)
    assert (rejects.state, rejects.no_gold) == ("not_applicable", True)
    if answerable:
        assert falsely.value == 1.0
        assert scores("Rome.", metadata=metadata)[3].value == 0.0
        abstained = scores("Sorry.", metadata={**metadata, "abstained": True})
        assert abstained[3].value == 1.0
    else:
        assert falsely.no_gold
    assert not parse_measures("FalseRejectionRate")[0].definition.higher_is_better


@pytest.mark.parametrize("metadata", [{}, {"falsified": False}, {"falsified": "False"}])
def test_errors_are_found_only_where_there_is_one(metadata: dict[str, object]) -> None:
    _, detected, corrected, _ = scores("A factual error.", metadata=metadata)
    assert detected.no_gold
    assert corrected.no_gold


def test_marks_are_read_as_tables_hold_them() -> None:
    assert scores("Rome.", metadata={"answerable": "FALSE"})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": "no"})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": 0})[0].value == 0.0
    assert scores("Rome.", metadata={"answerable": ""})[0].no_gold
    assert scores("Rome.", metadata={"answerable": "who knows"})[0].state == "errored"


def test_an_empty_answer_neither_refuses_nor_finds_errors() -> None:
    assert [score.value for score in scores("")] == [0.0, 0.0, None, None]
