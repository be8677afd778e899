"""Our own pipeline under test: a row's question answered by it, then scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..answer import avg_chunk_score
from ..core import Answer, GoldSpan, MetaValue, Row
from ..flow import Flow
from ..measure import Measure, MeasureSetup
from ._evaluate import answer_row
from ._results import RowResult

Asking = Callable[[str, str], Flow[Answer]]
"""Answers a question for a persona (its name, empty for the project's own)."""


def answered_by(row: Row, made: Answer) -> Row:
    """A row with an answer in it: text, passages with their places, whether it abstained.

    ``metadata`` gains ``abstained``, ``route``, ``model`` and, where the passages have
    similarities, ``chunk_score``, their mean (SPEC A4).
    """
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
        response=made.text,
        retrieved_contexts=tuple(hit.text for hit in made.hits),
        retrieved_context_ids=tuple(hit.document_id for hit in made.hits),
        retrieved_spans=tuple(
            GoldSpan(hit.document_id, hit.start, hit.end, hit.text) for hit in made.hits
        ),
        metadata=metadata,
    )


def asked_row(
    row: Row, asking: Asking, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Answer a row's question for its persona and score the answer; raises what asking raises."""
    made = yield from asking(row.user_input, row.persona_name)
    return (yield from answer_row(answered_by(row, made), measures, setup))
