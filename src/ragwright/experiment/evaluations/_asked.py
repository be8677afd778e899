"""The project's pipeline under test: it answers a row's question, then the answer is scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ...answer import avg_chunk_score
from ...core import Answer, GoldSpan, MetaValue, Row, citation_marks
from ...flow import ChatReply, Flow, SystemReply
from ...measure import Measure, MeasureSetup, choose_counted
from ._evaluate import Search, add_hits, answer_row
from ._results import Made, RowResult

Answerer = Callable[[Row], Flow[Answer]]
"""Answers a row's question, after its history, for its persona (empty: the project's own)."""


_OF_AN_ANSWER = frozenset(
    {
        "abstained",
        "chunk_score",
        "cited",
        "model",
        "ranked_documents",
        "retrieved",
        "route",
        "snippet_score",
    }
)
"""Metadata that belongs to one answer, not to the question."""


def clear_answer(row: Row) -> Row:
    """Return a row without its answer and everything about it: ranking, passages and states.

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


def add_answer(row: Row, answer: Answer) -> Row:
    """Return a row with an answer: text, passages with their places, abstention.

    Without a chat model the answer is the best unit of the first snippet, alone.
    Resolved citation marks are removed from the text: they are not words of the answer, but text
    measures would count them. ``metadata`` gains ``abstained``, ``retrieved`` (an empty ranking
    then scores 0), ``route``, ``model``, ``cited`` (numbers of passages) and, if the passages have
    similarities, ``chunk_score``, their mean, and ``snippet_score``, that of the first snippet.
    Nothing of an earlier answer is kept.
    """
    row = add_hits(clear_answer(row), answer.hits)
    metadata: dict[str, MetaValue] = {
        **row.metadata,
        "abstained": answer.abstained,
        "route": answer.route,
        "model": answer.model,
    }
    if (mean_similarity := avg_chunk_score(answer)) is not None:
        metadata["chunk_score"] = round(mean_similarity, 6)
    if not answer.snippets:
        metadata["cited"] = tuple(dict.fromkeys(str(c.marker) for c in answer.citations))
        return replace(
            row,
            response=_without_marks(answer.text, {c.marker for c in answer.citations}),
            metadata=metadata,
        )
    best = answer.snippets[0]
    metadata["snippet_score"] = best.score
    return replace(row, response=best.text[slice(*best.unit)], metadata=metadata)


def convert_reply(reply: ChatReply) -> SystemReply:
    """Convert a chat reply to that of a system.

    A ragwright server names the cited passages, whose marks are removed from the text, and its
    abstentions. It does not name other passages: without a citation, they are unknown.
    """
    extra = json.loads(reply.extra) if reply.extra else {}
    citations = extra.get("citations")
    cited = (
        [citation for citation in citations if _is_citation(citation)]
        if isinstance(citations, list)
        else []
    )
    quotes = {(citation["document_id"], citation["quote"]): None for citation in cited}
    return SystemReply(
        _without_marks(reply.text, {citation["number"] for citation in cited}),
        tuple(quote for _, quote in quotes),
        tuple(document for document, _ in quotes) if quotes else None,
        abstained=extra.get("abstained") is True,
        usage=reply.usage,
    )


def _is_citation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("number"), int)
        and isinstance(value.get("document_id"), str)
        and isinstance(value.get("quote"), str)
    )


def _without_marks(text: str, cited: Collection[int]) -> str:
    """Remove fully resolved marks and the blanks before them from a text."""
    parts, position = [], 0
    for mark in citation_marks(text):
        if all(number in cited for number in mark.numbers):
            parts.append(text[position : mark.start].rstrip(" \t"))
            position = mark.end
    return "".join((*parts, text[position:]))


def answer_and_score_row(
    row: Row,
    asking: Answerer,
    measures: Sequence[Measure],
    setup: MeasureSetup | None = None,
    search: Search | None = None,
) -> Flow[RowResult]:
    """Answer a row's question for its persona and score the answer; raises errors of answering.

    ``search`` ranks documents for the measures that count them: several passages of an answer may
    be of one document, so that k passages are fewer than k documents. Gold spans are counted in the
    passages.
    """
    answer = yield from asking(row)
    answered = add_answer(row, answer)
    ranked: tuple[str, ...] = ()
    counting = [m for m in measures if choose_counted(answered, m.definition) == "documents"]
    if search and row.reference_ids and counting:
        found = yield from search(row.user_input)
        depth = max(measure.cutoff or len(found) for measure in counting)
        ranked = tuple(dict.fromkeys(hit.document_id for hit in found))[:depth]
        answered = replace(answered, metadata={**answered.metadata, "ranked_documents": ranked})
    result = yield from answer_row(answered, measures, setup)
    hits = tuple((hit.source, hit.page, round(hit.score, 6)) for hit in answer.hits)
    cited = tuple(GoldSpan(c.document_id, c.start, c.end) for c in answer.citations)
    record = Made(answer.prompt, answer.usage, notes=answer.notes, hits=hits, citations=cited)
    return replace(result, ranking=(*result.ranking, *ranked), made=record)
