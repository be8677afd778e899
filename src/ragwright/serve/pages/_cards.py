"""Answers as cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...answer import NO_MODEL_LINE, CitedSpan, Marks, citation
from ...core import Answer
from ...models import TokenSource, words
from .._admission import Admission
from .._answers import ServedAnswer, notes_for, shorten_model, standalone
from .._links import citation_json, move_url, snippets_json

_WAYS: Mapping[str, str] = {
    "keyword": "by its words",
    "dense": "by its meaning",
    "rerank": "when question and passage were read together",
    "select": "by how well its sentences answer",
}
"""Channels and stages of a search -> how a reader would put it."""

_TEENS = range(11, 14)


def explain_answer(analyzer: TokenSource, answer: Answer, marks: Marks) -> dict[str, Any]:
    """Explain an answer.

    Args:
        analyzer: That of the index.
        answer: The answer.
        marks: Its text and the spans that it cites.

    Returns:
        The words that were looked for, those that no passage holds, those that were not looked
        for, each passage with its words, its places and whether it was quoted, and whether a search
        by words found nothing.
    """
    read_as = standalone(answer)
    tokens_of = {word: frozenset(analyzer.tokens(word)) for word in words(read_as)}
    looked_for = {word: tokens for word, tokens in tokens_of.items() if tokens}
    numbers: dict[str, list[int]] = {}
    for span in marks.spans:
        numbers.setdefault(span.citation.chunk_id, []).append(span.number)
    read = []
    held: set[str] = set()
    for hit in answer.hits:
        title = hit.title or hit.source
        tokens = set(analyzer.tokens(f"{hit.text}\n{title}"))
        matched = [word for word, wanted in looked_for.items() if wanted & tokens]
        held.update(matched)
        read.append(
            {
                "title": title,
                "page": hit.page,
                "url": move_url(marks.link(citation(hit.rank, hit), hit.text), ""),
                "text": hit.text,
                "words": matched,
                "others": not matched and "keyword" in hit.channels,
                "places": [
                    f"{_ordinal(score.rank)} {_WAYS[name]}"
                    for name, score in hit.channels.items()
                    if name in _WAYS
                ],
                "numbers": numbers.get(hit.chunk_id, ()),
            }
        )
    return {
        "read_as": "" if read_as == answer.question else read_as,
        "words": [*looked_for],
        "absent": [word for word in looked_for if word not in held] if read else [],
        "common": [word for word, tokens in tokens_of.items() if not tokens],
        "read": read,
        "unfound": any(note.startswith("no keyword hits") for note in answer.notes),
        "quoted": sum(bool(passage["numbers"]) for passage in read),
    }


def _ordinal(rank: int) -> str:
    ending = "th" if rank % 100 in _TEENS else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_WORDS = ("read as: ", "no keyword hits: ", "nothing was retrieved")
"""Beginnings of notes that the page says in other words."""


def card_values(work: Admission, done: ServedAnswer) -> dict[str, Any]:
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
        "model": shorten_model(answer.model, work.caller),
        "notes": notes_for([n for n in answer.notes if not n.startswith(_IN_WORDS)], work.caller),
        "promise": "" if answer.promise is None else answer.promise.line,
        "why": explain_answer(work.bench.project.analyzer, answer, marks),
    }


def _place(span: CitedSpan) -> dict[str, Any]:
    """A cited span with its address on this server, whatever name it was reached by."""
    place = citation_json(span)
    title = place["title"] or place["document_id"]
    return {**place, "url": move_url(span.url, ""), "title": title}


def _marked_snippet(snippet: Mapping[str, Any]) -> dict[str, Any]:
    """A snippet with its text in three parts: before, in and after its best sentence."""
    text, (start, end) = snippet["text"], snippet["marked"]
    return {
        **snippet,
        "url": move_url(snippet["url"], ""),
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
