"""Answers as cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...answer import NO_MODEL_LINE, CitedSpan, Marks
from .._admission import Admitted
from .._answers import Delivered, notes_for, short_model
from .._links import citation_json, moved_url, snippets_json
from ._why import plain_why

if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_WORDS = ("read as: ", "no keyword hits: ", "nothing was retrieved")
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
        "line": NO_MODEL_LINE,
        "snippets": [_marked_snippet(snippet) for snippet in snippets_json(answer, marks.link)],
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


def _marked_snippet(snippet: Mapping[str, Any]) -> dict[str, Any]:
    """A snippet with its text in three parts: before, in and after its best sentence."""
    text, (start, end) = snippet["text"], snippet["marked"]
    return {
        **snippet,
        "url": moved_url(snippet["url"], ""),
        "parts": (text[:start], text[start:end], text[end:]),
    }


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
