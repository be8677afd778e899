"""Nuggets: which of the facts that an answer must hold it supports.

The variants are those of TREC RAG 2024 (Pradeep et al. 2024). A nugget counts 1 if the answer
supports it, half if it supports it in part, else 0; ``strict`` counts full support alone.
``vital`` counts the vital nuggets alone, ``weighted`` the okay ones half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..core import Assignment, Importance, Nugget, Row, Score
from ..flow import Flow
from ._claims import fitting
from ._gold import NoGold
from ._judge_call import JudgeCall, object_schema, schema_text, sources_of, texts_of
from ._knowledge import Found
from ._measure import Measure
from ._reply import answered, ordered, read_object, text_of
from ._setup import MeasureSetup
from ._words import answer_words, content_words

ASSIGNMENTS: tuple[Assignment, ...] = ("support", "partial_support", "not_support")
"""What an answer may do for a nugget, as castorini/nuggetizer writes it."""

_CREDIT: Mapping[str, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_WEIGHTS: Mapping[str, Mapping[Importance, float]] = {
    "all": {"vital": 1.0, "okay": 1.0},
    "vital": {"vital": 1.0, "okay": 0.0},
    "weighted": {"vital": 1.0, "okay": 0.5},
}
_MARKS: Mapping[Assignment, str] = {"support": "+", "partial_support": "~", "not_support": "-"}
_WINDOW = 10
"""Most nuggets in one call, as in AutoNuggetizer."""

_EMPTY = "the response is empty"


def nuggets_supported(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The supported share of a row's nuggets by a judge; one call for every ten nuggets.

    The judge sees neither importance nor the other variants' needs: every variant asks the same,
    and together they cost as much as one. ``detail`` has a line for each nugget, with ``+`` before
    supported ones, ``~`` before those supported in part and ``-`` before the others.
    """
    missing = _none_counts(row.nuggets, measure)
    if missing:
        return Score(str(measure), "not_applicable", reason=missing, no_gold=True)
    if not row.response_text:
        verdicts: list[tuple[Assignment, str]] = [("not_support", _EMPTY)] * len(row.nuggets)
    else:
        calls = [
            _assigning_call(row, row.nuggets[at : at + _WINDOW], sample)
            for at in range(0, len(row.nuggets), _WINDOW)
        ]
        judged = yield from fitting(calls, setup)
        if isinstance(judged, str):
            return Score(str(measure), "not_applicable", reason=judged)
        verdicts = []
        for judgment in judged:
            if judgment.value is None:
                return Score(str(measure), "judge_invalid", reason=judgment.why)
            verdicts += judgment.value
    detail = "\n".join(
        f"{_MARKS[assignment]} {nugget.importance}: {nugget.text} ({reasoning})"
        for nugget, (assignment, reasoning) in zip(row.nuggets, verdicts, strict=True)
    )
    credit_of_each = [_CREDIT[assignment] for assignment, _ in verdicts]
    return Score(
        str(measure), "scored", _weighted_share(row.nuggets, credit_of_each, measure), detail=detail
    )


def nuggets_value(row: Row, measure: Measure, language: str) -> Found:
    """The supported share without a model, or why there is none.

    ``words``: a nugget counts the share of its distinct content words that the response holds, and
    with ``strict`` 1 if it holds all of them. ``assigned``: the recorded assignments of the row.
    """
    missing = _none_counts(row.nuggets, measure)
    if missing:
        return missing
    if "words" in _parts(measure):
        credit_of_each = [
            _word_share(nugget.text, row.response_text, language) for nugget in row.nuggets
        ]
        return _weighted_share(row.nuggets, credit_of_each, measure)
    for number, nugget in enumerate(row.nuggets, 1):
        if nugget.assignment not in _CREDIT:
            state = "failed" if nugget.assignment else "is not recorded"
            return f"the assignment of nugget {number} {state}"
    credit_of_each = [_CREDIT[nugget.assignment] for nugget in row.nuggets]
    return _weighted_share(row.nuggets, credit_of_each, measure)


def with_assignments(row: Row, score: Score) -> Row | None:
    """The row with a judge's assignments, from the detail of its score; None if it has none.

    The mean of several repeats has no single assignment for each nugget.
    """
    lines = score.detail.splitlines()
    kinds = {mark: assignment for assignment, mark in _MARKS.items()}
    if score.value is None or len(lines) != len(row.nuggets):
        return None
    assigned = []
    for nugget, line in zip(row.nuggets, lines, strict=True):
        if not line[2:].startswith(f"{nugget.importance}: {nugget.text} ("):
            return None
        assigned.append(replace(nugget, assignment=kinds[line[0]]))
    return replace(row, nuggets=tuple(assigned))


def _parts(measure: Measure) -> Sequence[str]:
    return measure.parameter.split("+")


def _none_counts(nuggets: Sequence[Nugget], measure: Measure) -> NoGold | None:
    if "vital" in _parts(measure) and all(nugget.importance != "vital" for nugget in nuggets):
        return NoGold("the row has no vital nuggets")
    return None


def _weighted_share(
    nuggets: Sequence[Nugget], credit_of_each: Sequence[float], measure: Measure
) -> float:
    parts = _parts(measure)
    weights = _WEIGHTS[next((name for name in _WEIGHTS if name in parts), "all")]
    if "strict" in parts:
        credit_of_each = [float(credit == 1) for credit in credit_of_each]
    counted = [weights[nugget.importance] for nugget in nuggets]
    return sum(w * c for w, c in zip(counted, credit_of_each, strict=True)) / sum(counted)


def _word_share(nugget: str, response: str, language: str) -> float:
    """Share of a nugget's distinct content words in a response; of all words if it has none."""
    cut = content_words if content_words(nugget, language) else answer_words
    nugget_words = set(cut(nugget, language))
    if not nugget_words:
        return 0.0
    return len(nugget_words.intersection(cut(response, language))) / len(nugget_words)


def _assigning_call(
    row: Row, nuggets: Sequence[Nugget], sample: int
) -> JudgeCall[list[tuple[Assignment, str]]]:
    listed = tuple((f"nugget {number}", nugget.text) for number, nugget in enumerate(nuggets, 1))
    return JudgeCall(
        prompt="nuggets",
        texts=(*texts_of(row, ("user_input", "response")), *listed),
        read=lambda text, form, finish: _read_assignments(text, finish, len(nuggets)),
        schema=_ASSIGNMENTS,
        stand_in=[("not_support", "forecast") for _ in nuggets],
        values={"count": len(nuggets)},
        sample=sample,
        sources=sources_of(row),
    )


def _read_assignments(text: str, finish: str, count: int) -> list[tuple[Assignment, str]]:
    entries = answered(read_object(text, ("assignments",), finish)["assignments"])
    if not isinstance(entries, list) or len(entries) != count:
        raise ValueError(f'"assignments" must be a list of {count} entries, one for each nugget')
    verdicts: list[tuple[Assignment, str]] = []
    for number, entry in enumerate(entries, 1):
        entry = ordered(entry, ("nugget", "reasoning", "assignment"))
        if type(entry["nugget"]) is not int or entry["nugget"] != number:
            raise ValueError(f"entry {number} must be about nugget {number}")
        if answered(entry["assignment"]) not in ASSIGNMENTS:
            raise ValueError(f'"assignment" must be one of {", ".join(ASSIGNMENTS)}')
        reasoning = " ".join(text_of(entry["reasoning"], "a reasoning").split())
        verdicts.append((entry["assignment"], reasoning))
    return verdicts


_ENTRY = object_schema(
    {
        "nugget": {"type": "integer"},
        "reasoning": {"type": "string"},
        "assignment": {"type": ["string", "null"], "enum": [*ASSIGNMENTS, None]},
    }
)
_ASSIGNMENTS = schema_text({"assignments": {"type": ["array", "null"], "items": _ENTRY}})
