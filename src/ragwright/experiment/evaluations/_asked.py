"""The project's pipeline under test: it answers a row's question, then the answer is scored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...answer import avg_chunk_score
from ...core import Answer, GoldSpan, MetaValue, Row, citation_marks
from ...flow import Flow
from ...measure import Measure, MeasureSetup
from ._evaluate import answer_row
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
    row = unanswered(row)
    marks = {citation.marker for citation in made.citations}
    metadata: dict[str, MetaValue] = {
        **row.metadata,
        "abstained": made.abstained,
        "retrieved": True,
        "route": made.route,
        "model": made.model,
    }
    near = avg_chunk_score(made)
    if near is not None:
        metadata["chunk_score"] = round(near, 6)
    return replace(
        row,
        response=_unmarked(made.text, marks),
        retrieved_contexts=tuple(hit.text for hit in made.hits),
        retrieved_context_ids=tuple(hit.document_id for hit in made.hits),
        retrieved_spans=tuple(
            GoldSpan(hit.document_id, hit.start, hit.end, hit.text) for hit in made.hits
        ),
        metadata=metadata,
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
