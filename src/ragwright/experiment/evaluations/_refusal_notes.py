"""Notes on refusals: the cues that recognise them, and answers that the cues may have missed."""

from __future__ import annotations

from collections.abc import Iterator

from ...core import Row, counted
from ...measure import content_words, plain_words
from ._results import RowResult

_REFUSALS = ("RejectionRate", "FalseRejectionRate")
_SHORT = 15
"""Most words of an answer that may be a plain refusal."""
_SHOWN = 3


class RefusalNotes:
    """Collects answers that count as answers although they may be refusals."""

    def __init__(self) -> None:
        self._measures: dict[str, None] = {}
        self._answers: dict[tuple[str, ...], dict[str, str]] = {}

    def add(self, result: RowResult) -> None:
        """Add one row."""
        values = {
            score.measure: score.value
            for score in result.scores
            if score.measure in _REFUSALS and score.value is not None
        }
        self._measures.update(dict.fromkeys(values))
        row = result.row
        if row is None or not values or any(values.values()):
            return
        words = tuple(plain_words(row.response_text))
        if words and len(words) <= _SHORT and _is_unrelated(row):
            self._answers.setdefault(words, {})[row.id] = " ".join(row.response_text.split())

    def notes(self) -> Iterator[str]:
        """Return notes on the cues of refusals, and on what they may have missed."""
        if not self._measures:
            return
        measures = ", ".join(self._measures)
        yield f"{measures}: a refusal is recognised by the words in `judge.rejection_cues`"
        repeated = [rows for rows in self._answers.values() if len(rows) > 1]
        if not repeated:
            return
        repeated.sort(key=len, reverse=True)
        examples = ", ".join(
            f'"{next(iter(rows.values()))}" ({counted(len(rows), "row")})'
            for rows in repeated[:_SHOWN]
        )
        total = counted(sum(map(len, repeated)), "short answer")
        yield (
            f"{measures}: {total} that share no word with their passages occur several times: "
            f"{examples}. If they are refusals, add their words to `judge.further_rejection_cues`"
        )


def _is_unrelated(row: Row) -> bool:
    """True if an answer shares no content word with its passages and its reference."""
    answer_words = set(content_words(row.response_text, "auto"))
    texts = (*row.retrieved_contexts, row.reference)
    return not any(answer_words & set(content_words(text, "auto")) for text in texts)
