"""Scores of empty answers for measures that would need a model.

An empty answer is an answer: a system that returns nothing must not gain by it. Against a
reference, and as an answer to a question, it gets the worst value, without a model. If a measure
asks about the content of the answer, the row is not applicable, but stays part of coverage and
bounds. A missing answer (None) and a withheld one (``abstained``) are handled before.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core import Row, Score
from ._definition import MeasureScale
from ._gold import GOLD, gold_given, read_mark
from ._measure import Measure

NOTHING = "the response is empty"

_SAYS: Mapping[str, float | str] = {
    "BERTScore": 0.0,  # as bert-score has it
    "Claims": "it makes no claims",
    "Completeness": 0.0,
    "MoverScore": -1.0,  # the end of the scale: there are no tokens to move
    "Perplexity": "it has no tokens",
    "Q2": "it has no span to ask about",
    "QADistance": "it has no vector",
    "QuestionSimilarity": "no question can be written from it",
}
"""A value, or why there is none; for rubric measures the rubric decides."""


def withheld(row: Row, measure: str) -> Score | None:
    """The score of a row that its system declined to answer; None if it did not.

    On a row marked ``answerable: false`` that was right, and is not counted. On another row with
    gold it is a missed answer: its state has no value, comparisons count the worst one.

    Raises:
        MeasureError: One of the two marks is neither true nor false.
    """
    if not read_mark(row, "abstained"):
        return None
    answerable = read_mark(row, "answerable")
    gold = answerable or gold_given({name: getattr(row, name) for name in GOLD})
    return Score(
        measure,
        "abstained",
        reason="the system gave no answer",
        unanswerable=answerable is False,
        missed=bool(gold) and answerable is not False,
    )


def count_as_worst(score: Score, scale: MeasureScale | None) -> Score:
    """A score in which a missed answer has the worst value of the scale, if there is one."""
    worst = scale.worst if score.missed and scale is not None else None
    return score if worst is None else Score(score.measure, "scored", worst)


def score_empty_answer(row: Row, measure: Measure) -> Score | None:
    """The score of an empty answer; None if the measure must be computed."""
    value_or_reason = None if row.response_text else _SAYS.get(measure.name)
    if value_or_reason is None:
        return None
    if isinstance(value_or_reason, str):
        return Score(str(measure), "not_applicable", reason=f"{NOTHING}: {value_or_reason}")
    return Score(str(measure), "scored", value_or_reason, detail=NOTHING)
