"""What is right, and how sure an answer looks: rows of a run as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import Answer, ConfigError, MeasureError, Row, Score, suggest_name
from ..experiment import RIGHT_ANSWER, RowResult, add_answer, is_right
from ..flow import Flow
from ..measure import (
    GateRule,
    Measure,
    MeasureSetup,
    parse_measure,
    parse_rule,
    read_mark,
    score_row,
)
from ._certify import Flags, Numbers

HIT, MARGIN, SNIPPET = "hit", "margin", "snippet"

SCORES = (HIT, MARGIN, SNIPPET, "KPrecision(content+bigrams)")
"""The scores that are tried by default; none costs a call."""

_SHOWN = {
    HIT: "best hit score",
    MARGIN: "margin of the best hit",
    SNIPPET: "score of the first snippet",
}

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RightRule:
    """When an answer counts as right.

    Attributes:
        rule: A measure with its bound; None for the rule of gold answers.
        language: Of answers whose row names none.
    """

    rule: GateRule | None = None
    language: str = "en"

    def __str__(self) -> str:
        """The rule for readers."""
        if self.rule is not None:
            return str(self.rule)
        return f"{RIGHT_ANSWER}; any answer to an unanswerable question is wrong"

    def wrong(self, result: RowResult) -> bool | None:
        """True if a given answer is wrong; None if its row has no gold to say so.

        An answer to a question that is marked unanswerable is wrong, and so is one that the measure
        could not score.
        """
        row = result.row
        if row is None:
            return None
        if read_mark(row, "answerable") is False:
            return True
        if self.rule is None:
            right = is_right(row, row.response or "", self.language)
            return None if right is None else not right
        name = str(self.rule.measure)
        score = next(score for score in result.scores if score.measure == name)
        return self.wrong_score(score)

    def wrong_score(self, score: Score) -> bool | None:
        """As :meth:`wrong`, for a score of the rule's measure."""
        assert self.rule is not None
        if score.state == "not_applicable":
            return None
        if score.value is None:
            return True
        value = round(score.value, _DIGITS)
        return value < self.rule.bound if self.rule.upward else value > self.rule.bound


def parse_right_rule(text: str, language: str = "en") -> RightRule:
    """The rule of an option ``--measure``: ``TokenF1>=0.5``, or empty for gold answers.

    Raises:
        MeasureError: Not a measure with a bound.
        ConfigError: The bound is relative to a baseline.
    """
    if not text.strip():
        return RightRule(None, language)
    rule = parse_rule(text)
    if rule.margin is not None:
        raise ConfigError(
            "a promise needs a fixed bound, not one relative to a baseline",
            where="--measure",
            hint="write for example --measure 'TokenF1>=0.5'",
        )
    return RightRule(rule, language)


def name_score(name: str) -> str:
    """The name of a score in sentences."""
    return _SHOWN.get(name, name)


def score_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """The measures among the scores.

    Raises:
        ConfigError: A name is neither a score nor a measure, or a measure needs a gold answer,
            which questions to come do not have.
    """
    measures = tuple(_score_measure(name) for name in names if name not in _SHOWN)
    for measure in measures:
        gold = {name for name in measure.definition.needs if name.startswith("reference")}
        if gold:
            raise ConfigError(
                f"{measure} needs {' and '.join(sorted(gold))}, which new questions do not have",
                where="--scores",
                hint=f"use {', '.join(_SHOWN)}, or measures of answer and passages",
            )
    return measures


def _score_measure(name: str) -> Measure:
    """A measure that is named among the scores."""
    try:
        return parse_measure(name)
    except MeasureError as error:
        if not error.what.startswith("unknown measure"):
            raise
        raise ConfigError(
            f"{name!r} is neither a score nor a measure",
            where="--scores",
            hint=f"{suggest_name(name, _SHOWN)}; or a measure of answer and passages, "
            f"such as {SCORES[-1]}",
        ) from error


def hit_score(name: str, scores: Sequence[float]) -> float | None:
    """The best of the hits' scores, or how far it is above the second."""
    ordered = sorted((round(score, _DIGITS) for score in scores), reverse=True)
    if not ordered:
        return None
    if name == HIT or len(ordered) == 1:
        return ordered[0]
    return round(ordered[0] - ordered[1], _DIGITS)


def answer_score(name: str, answer: Answer, setup: MeasureSetup) -> Flow[float | None]:
    """The score of an answer as it is given; None if it has none."""
    if name in (HIT, MARGIN):
        yield from ()
        return hit_score(name, [hit.score for hit in answer.hits])
    if name == SNIPPET:
        return answer.snippets[0].score if answer.snippets else None
    [measure] = score_measures([name])
    row = add_answer(Row("answer", answer.question), answer)
    [score] = yield from score_row(row, [measure], setup)
    return _signed(measure, score)


def row_score(name: str, result: RowResult) -> float | None:
    """The score of a stored row, equal to that of the same answer when it is given."""
    if name in (HIT, MARGIN):
        hits = () if result.made is None else result.made.hits
        return hit_score(name, [score for _, _, score in hits])
    if name == SNIPPET:
        score = None if result.row is None else result.row.metadata.get("snippet_score")
        return float(score) if isinstance(score, float | int) else None
    [measure] = score_measures([name])
    return _signed(measure, next(s for s in result.scores if s.measure == str(measure)))


def _signed(measure: Measure, score: Score) -> float | None:
    """A score of which higher is better."""
    if score.value is None:
        return None
    value = round(score.value, _DIGITS)
    return value if measure.definition.higher_is_better else -value


@dataclass(frozen=True, slots=True)
class GradedRows:
    """Rows of a split as numbers.

    Attributes:
        scores: Name of a score -> one per row; minus infinity where nothing is answered.
        wrong: Whether the answer is wrong; False where nothing is answered.
        ungraded: Answered rows that were left out, because no gold says whether they are right.
        unanswerable: Rows that are marked so.
    """

    scores: dict[str, Numbers]
    wrong: Flags
    ungraded: int
    unanswerable: int = 0


def grade_rows(results: Sequence[RowResult], names: Sequence[str], rule: RightRule) -> GradedRows:
    """Grade the rows of a run.

    Rows that failed count as not answered: an error is shown to a user, not an answer.
    """
    columns: dict[str, list[float]] = {name: [] for name in names}
    wrong: list[bool] = []
    ungraded = unanswerable = 0
    for result in results:
        row = result.row
        unanswerable += row is not None and read_mark(row, "answerable") is False
        silent = row is None or row.response is None or read_mark(row, "abstained") is True
        bad = False if silent else rule.wrong(result)
        if bad is None:
            ungraded += 1
            continue
        wrong.append(bad)
        for name in names:
            score = None if silent else row_score(name, result)
            columns[name].append(-np.inf if score is None else score)
    scores = {name: np.asarray(values, np.float64) for name, values in columns.items()}
    return GradedRows(scores, np.asarray(wrong, np.bool_), ungraded, unanswerable)
