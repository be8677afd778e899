"""Passages that readers did not see: what the present settings find for the same questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core import GoldSpan, Row
from ...retrieve import retrieve
from ...testsets import is_candidate, pooled_spans

if TYPE_CHECKING:
    from ...project import Project
    from ._rows import Asked


def pooled_passages(
    project: Project,
    questions: Sequence[Asked],
    before: Sequence[Row],
    count: int,
    text_of: Callable[[str], str | None],
) -> Mapping[str, tuple[GoldSpan, ...]]:
    """Return, by row id, the passages to show beside those that readers saw.

    These are the first hits of a search under the settings of the session, and the passages that
    earlier calls added to undecided rows, as far as their documents still hold them.

    Args:
        project: The project.
        questions: The questions.
        before: The rows of the testset so far.
        count: Hits for each question; 0 searches nothing.
        text_of: Text of a document by its id.
    """
    pooled: dict[str, dict[GoldSpan, None]] = {}
    for row in before:
        kept = [
            span
            for span in (pooled_spans(row) if is_candidate(row) else ())
            if (text_of(span.document_id) or "")[span.start : span.end] == span.text
        ]
        pooled[row.id] = dict.fromkeys(kept)
    if count and questions:
        target = project.target()
        options = replace(project.settings.retrieve, top_k=count, context_tokens=None)
        flows = (retrieve(asked.question, target, options) for asked in questions)
        with project.work.working("retrieve"):
            results = list(project.runner.map(flows))
        for asked, retrieved in zip(questions, results, strict=True):
            spans = pooled.setdefault(asked.id, {})
            for hit in retrieved.hits:
                text = (text_of(hit.document_id) or "")[hit.start : hit.end]
                # without outer white space, as passages that readers saw are located
                start, words = hit.start + len(text) - len(text.lstrip()), text.strip()
                if words:
                    span = GoldSpan(hit.document_id, start, start + len(words), words)
                    spans[span] = None
    return {name: tuple(spans) for name, spans in pooled.items()}
