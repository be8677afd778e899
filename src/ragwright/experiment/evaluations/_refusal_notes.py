"""Notes on refusals: which cues recognise them, and short answers that the cues may have missed."""

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
        words = tuple(plain_words(row.said))
        if words and len(words) <= _SHORT and _elsewhere(row):
            self._answers.setdefault(words, {})[row.id] = " ".join(row.said.split())

    def notes(self) -> Iterator[str]:
        """That refusals are recognised by cues, and what the cues may have missed."""
        if not self._measures:
            return
        named = ", ".join(self._measures)
        yield f"{named}: a refusal is recognised by the words in `judge.rejection_cues`"
        repeated = [rows for rows in self._answers.values() if len(rows) > 1]
        if not repeated:
            return
        repeated.sort(key=len, reverse=True)
        shown = ", ".join(
            f'"{next(iter(rows.values()))}" ({counted(len(rows), "row")})'
            for rows in repeated[:_SHOWN]
        )
        total = counted(sum(map(len, repeated)), "short answer")
        yield (
            f"{named}: {total} that share no word with their passages occur several times: "
            f"{shown}. If they are refusals, add their words to `judge.further_rejection_cues`"
        )


def _elsewhere(row: Row) -> bool:
    """True if an answer shares no content word with its passages and its reference."""
    own = set(content_words(row.said, "auto"))
    texts = (*row.retrieved_contexts, row.reference)
    return not any(own & set(content_words(text, "auto")) for text in texts)
