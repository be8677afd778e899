"""The project's pipeline under test: it answers a row's question, then the answer is scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ...answer import avg_chunk_score
from ...core import Answer, MetaValue, Row, citation_marks
from ...flow import ChatReply, Flow, SystemReply
from ...measure import Measure, MeasureSetup
from ._evaluate import answer_row, with_hits
from ._results import Made, RowResult

Answerer = Callable[[str, str], Flow[Answer]]
"""Answers a question for a persona (its name, empty for the project's own)."""


_OF_AN_ANSWER = frozenset({"abstained", "chunk_score", "model", "retrieved", "route"})
"""Metadata that belongs to one answer, not to the question."""


def unanswered(row: Row) -> Row:
    """A row without its answer and everything about it: ranking, passages and states.

    Only the question with its gold is left, so that a new answer inherits nothing.
    """
    return replace(
        row,
        response=None,
        retrieved_contexts=(),
        retrieved_context_ids=(),
        retrieved_spans=(),
        metadata={k: v for k, v in row.metadata.items() if k not in _OF_AN_ANSWER},
    )


def answered_by(row: Row, made: Answer) -> Row:
    """A row with an answer: text, passages with their places, abstention.

    Resolved citation marks are removed from the text: they are not words of the answer, but text
    measures would count them. ``metadata`` gains ``abstained``, ``retrieved`` (an empty ranking
    then scores 0), ``route``, ``model`` and, if the passages have similarities, ``chunk_score``,
    their mean. Nothing of an earlier answer is kept.
    """
    row = with_hits(unanswered(row), made.hits)
    marks = {citation.marker for citation in made.citations}
    metadata: dict[str, MetaValue] = {
        **row.metadata,
        "abstained": made.abstained,
        "route": made.route,
        "model": made.model,
    }
    near = avg_chunk_score(made)
    if near is not None:
        metadata["chunk_score"] = round(near, 6)
    return replace(
        row,
        response=_unmarked(made.text, marks),
        metadata=metadata,
    )


def served_reply(reply: ChatReply) -> SystemReply:
    """A chat reply as that of a system.

    Of a ragwright server the cited passages are known, so their marks are removed from the text,
    and whether it abstained. It does not say what else it found: without a citation the passages
    are unknown.
    """
    said = json.loads(reply.extra) if reply.extra else {}
    listed = said.get("citations")
    cited = [one for one in listed if _is_citation(one)] if isinstance(listed, list) else []
    held = {(one["document_id"], one["quote"]): None for one in cited}
    return SystemReply(
        _unmarked(reply.text, {one["number"] for one in cited}),
        tuple(quote for _, quote in held),
        tuple(document for document, _ in held) if held else None,
        abstained=said.get("abstained") is True,
        usage=reply.usage,
    )


def _is_citation(said: Any) -> bool:
    return (
        isinstance(said, dict)
        and isinstance(said.get("number"), int)
        and isinstance(said.get("document_id"), str)
        and isinstance(said.get("quote"), str)
    )


def _unmarked(text: str, cited: Collection[int]) -> str:
    """A text without fully resolved marks and the blanks before them."""
    kept, at = [], 0
    for mark in citation_marks(text):
        if all(number in cited for number in mark.numbers):
            kept.append(text[at : mark.start].rstrip(" \t"))
            at = mark.end
    return "".join((*kept, text[at:]))


def asked_row(
    row: Row, asking: Answerer, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Answer a row's question for its persona and score the answer; raises errors of answering."""
    answer = yield from asking(row.user_input, row.persona_name)
    result = yield from answer_row(answered_by(row, answer), measures, setup)
    hits = tuple((hit.source, hit.page, round(hit.score, 6)) for hit in answer.hits)
    made = Made(answer.prompt, answer.usage, notes=answer.notes, hits=hits)
    return replace(result, made=made)
