"""Answers as cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._answers import notes_for, short_model
from .._links import citation_json, closest_spans, moved_url
from ._why import plain_why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...answer import CitedSpan, Marks
    from .._admission import Admitted
    from .._answers import Delivered

_IN_WORDS = ("quoted offline", "read as: ", "no keyword hits: ", "nothing was retrieved")
"""Beginnings of notes that the page says in other words."""


def card_values(work: Admitted, done: Delivered) -> dict[str, Any]:
    """The values of an answer's card for the template."""
    answer, marks = done.answer, done.marks
    spans = {span.number: _place(span) for span in marks.spans}
    return {
        "id": done.id,
        "persona": answer.persona,
        "parts": _parts(marks, spans),
        "spans": list(spans.values()),
        "closest": [_place(span) for span in closest_spans(answer, marks.link)],
        "model": short_model(answer.model, work.caller),
        "notes": notes_for([n for n in answer.notes if not n.startswith(_IN_WORDS)], work.caller),
        "promise": "" if answer.promise is None else answer.promise.line,
        "why": plain_why(work.bench.project.analyzer, answer, marks),
    }


def _place(span: CitedSpan) -> dict[str, Any]:
    """A cited span with its address on this server, whatever name it was reached by."""
    place = citation_json(span)
    title = place["title"] or place["document_id"]
    return {**place, "url": moved_url(span.url, ""), "title": title}


def _parts(
    marks: Marks, spans: Mapping[int, Mapping[str, Any]]
) -> Sequence[tuple[str, Mapping[str, Any] | None]]:
    """The text cut at its marks, so that each mark becomes a link and nothing else does."""
    parts: list[tuple[str, Mapping[str, Any] | None]] = []
    at = 0
    for mark in marks.marks:
        parts.append((marks.text[at : mark.start], None))
        parts.append((marks.text[mark.start : mark.end], spans.get(mark.span.number)))
        at = mark.end
    return [*parts, (marks.text[at:], None)]
