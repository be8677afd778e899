"""What became of the questions: the table that an evaluation opens with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...core import MeasureError
from ...measure import is_refusal, marked
from ._row_records import ScoredRow

_REFUSALS = ("RejectionRate", "FalseRejectionRate")


@dataclass(slots=True)
class AnswerCounts:
    """Counts of rows, added one by one.

    Attributes:
        rows: All rows.
        answered: Rows with an answer that is no refusal; an empty one is an answer.
        abstained: Rows that the system declined to answer, by its mark or in words.
        failed: Rows without any answer: the system failed, or was not asked. A judge that fails
            leaves them answered.
        unanswerable: Rows marked ``answerable: false``; ``answerable`` likewise.
        rightly_refused: Unanswerable rows that were refused.
        wrongly_answered: Unanswerable rows that were answered.
        wrongly_refused: Answerable rows that were refused.
    """

    rows: int = 0
    answered: int = 0
    abstained: int = 0
    failed: int = 0
    unanswerable: int = 0
    answerable: int = 0
    rightly_refused: int = 0
    wrongly_answered: int = 0
    wrongly_refused: int = 0

    def add(self, result: ScoredRow) -> None:
        """Count one row."""
        self.rows += 1
        row = result.row
        if row is None or row.response is None:
            self.failed += 1
            return
        values = [score.value for score in result.scores if score.measure in _REFUSALS]
        known = [value for value in values if value is not None]
        try:
            refused = any(known) if known else is_refusal(row)
            answerable = marked(row, "answerable")
        except MeasureError:  # a mark that is neither true nor false: the scores say so
            refused, answerable = False, None
        self.abstained += refused
        self.answered += not refused
        self.answerable += answerable is True
        self.wrongly_refused += answerable is True and refused
        self.unanswerable += answerable is False
        self.rightly_refused += answerable is False and refused
        self.wrongly_answered += answerable is False and not refused

    def lines(self) -> Iterator[tuple[str, int, int]]:
        """(What, rows, of how many), in order; nothing if no answers were asked for."""
        if self.failed == self.rows:
            return
        yield "answered", self.answered, self.rows
        yield "abstained", self.abstained, self.rows
        if self.failed:
            yield "no answer", self.failed, self.rows
        if self.unanswerable:
            yield "rightly refused", self.rightly_refused, self.unanswerable
            yield "answered although nothing answers", self.wrongly_answered, self.unanswerable
        if self.answerable:
            yield "refused although answerable", self.wrongly_refused, self.answerable
