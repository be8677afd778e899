"""Stale testsets: rows whose gold no longer matches the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core import GoldSpan, Row, TestsetError
from ._testsets import Testset

TextOf: TypeAlias = Callable[[str], str | None]
"""A function that returns the text of a document by its id, None if it does not exist."""

Staleness: TypeAlias = Literal["moved", "several", "gone", "outside"]

_SHOWN = 5
_REASONS: dict[Staleness, str] = {
    "moved": "its text has moved",
    "several": "its text has moved, and occurs in several places",
    "gone": "its text is no longer in the document",
    "outside": "it holds no text, and ends after the document",
}


@dataclass(frozen=True, slots=True)
class StaleSpan:
    """A gold span that does not match its document.

    Attributes:
        row_id: The row.
        span: The span in the row.
        state: ``moved`` (its text is at exactly one other place), ``several`` (at more than
            one), ``gone`` (nowhere), ``outside`` (no text to search for, and beyond the end).
        now: The span at its new place, if it is ``moved``.
    """

    row_id: str
    span: GoldSpan
    state: Staleness
    now: GoldSpan | None = None

    def __str__(self) -> str:
        """Return row, document and reason on one line."""
        new_place = f" ({self.now.start}-{self.now.end})" if self.now else ""
        place = f"{self.span.document_id} {self.span.start}-{self.span.end}"
        return f"row {self.row_id}: {place}: {_REASONS[self.state]}{new_place}"


def stale_rows(rows: Iterable[Row], text_of: TextOf) -> tuple[StaleSpan, ...]:
    """Return gold spans that do not match their documents, in row order.

    Missing documents are skipped here.

    Args:
        rows: Rows with ``reference_spans``.
        text_of: Text of a document; called once per document.
    """
    texts: dict[str, str | None] = {}
    stale_spans = []
    for row in rows:
        for span in row.reference_spans:
            if span.document_id not in texts:
                texts[span.document_id] = text_of(span.document_id)
            text = texts[span.document_id]
            if text is not None and (stale := _stale_span(row.id, span, text)) is not None:
                stale_spans.append(stale)
    return tuple(stale_spans)


def move_row(row: Row, stale: Sequence[StaleSpan]) -> Row:
    """Return a row with its moved spans at their new places."""
    places = {
        stale_span.span: stale_span.now
        for stale_span in stale
        if stale_span.row_id == row.id and stale_span.now is not None
    }
    if not places:
        return row
    return replace(
        row, reference_spans=tuple(places.get(span) or span for span in row.reference_spans)
    )


def current_gold(testset: Testset, text_of: TextOf) -> Testset:
    """Check the testset against the present documents.

    Gold that only moved is updated to its new place; rows whose gold text changed are left out;
    notes name both.

    Raises:
        TestsetError: Every row with a span is stale.
    """
    stale = stale_rows(testset.rows, text_of)
    if not stale:
        return testset
    lost = list(dict.fromkeys(stale_span.row_id for stale_span in stale if stale_span.now is None))
    spanned = [row for row in testset.rows if row.reference_spans]
    if len(lost) == len(spanned):
        raise TestsetError(
            f"the gold of all {len(spanned)} rows changed since the testset was written: "
            f"{stale[0]}",
            where=testset.name,
            hint="the documents were edited or read differently: make the testset again with "
            "`ragwright synth`, or restore the documents",
        )
    dropped = set(lost)
    moved = list(
        dict.fromkeys(stale_span.row_id for stale_span in stale if stale_span.row_id not in dropped)
    )
    rows = tuple(move_row(row, stale) for row in testset.rows if row.id not in dropped)
    notes = list(testset.notes)
    if lost:
        notes.append(
            f"{len(lost)} of {len(testset.rows)} rows are left out, the documents changed: "
            f"{_first_ids(lost)}"
        )
    if moved:
        notes.append(
            f"the gold text of {len(moved)} rows moved and is measured at its new place: "
            f"{_first_ids(moved)}"
        )
    return replace(testset, rows=rows, notes=tuple(notes))


def _stale_span(row_id: str, span: GoldSpan, text: str) -> StaleSpan | None:
    if not span.text:
        return StaleSpan(row_id, span, "outside") if span.end > len(text) else None
    if text[span.start : span.end] == span.text:
        return None
    first = text.find(span.text)
    if first < 0:
        return StaleSpan(row_id, span, "gone")
    if text.find(span.text, first + 1) >= 0:
        return StaleSpan(row_id, span, "several")
    now = replace(span, start=first, end=first + len(span.text))
    return StaleSpan(row_id, span, "moved", now)


def _first_ids(ids: Sequence[str]) -> str:
    rest = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + rest
