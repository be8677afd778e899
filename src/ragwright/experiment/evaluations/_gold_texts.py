"""Gold passages (``reference_contexts``) as gold spans of documents in the index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...core import GoldSpan, Row
from ...flow import Flow, gather, lookup, search_keyword
from ...project import Project
from ...testsets import Testset

_WORDS = 30
"""Number of words of a passage to search for: enough to be rare, few enough to be quick."""

_CANDIDATES = 5


def with_gold_from_texts(project: Project, testset: Testset) -> Testset:
    """Add gold spans to rows whose gold is passages alone.

    A passage becomes a span if a document of the index holds its text, ignoring white space and
    case. Documents are searched by keywords: those of its first words, else of its last ones. A row
    with gold ids or spans keeps them. A note counts the passages that were found and those missing.
    """
    candidates = [row for row in testset.rows if _has_texts_alone(row)]
    if not candidates:
        return testset
    snapshot = project.target().snapshot
    texts: dict[str, str | None] = {}

    def text_of(name: str) -> str:
        if name not in texts:
            document = project.store.document(name)
            texts[name] = None if document is None else document.text
        return texts[name] or ""

    passages = list(
        dict.fromkeys(t for row in candidates for t in row.reference_contexts if t.strip())
    )
    names = project.runner.run(gather(_candidate_documents(snapshot, text) for text in passages))
    spans = {
        text: _span_of_text(text, documents, text_of)
        for text, documents in zip(passages, names, strict=True)
    }
    rows_by_id = {row.id: _with_spans(row, spans) for row in candidates}
    rows = tuple(rows_by_id.get(row.id, row) for row in testset.rows)
    with_spans = sum(bool(row.reference_spans) for row in rows_by_id.values())
    missing = sum(span is None for span in spans.values())
    note = f"gold passages of {with_spans} rows were found in the index by their text"
    if missing:
        note += f"; {missing} of {len(passages)} passages are not in it word for word, and not gold"
    return replace(testset, rows=rows, notes=(*testset.notes, note))


def _has_texts_alone(row: Row) -> bool:
    texts = any(text.strip() for text in row.reference_contexts)
    return texts and not row.reference_ids and not row.reference_spans


def _candidate_documents(snapshot: str, text: str) -> Flow[tuple[str, ...]]:
    """Search for documents that may hold a text, best first."""
    words = text.split()
    ids: list[str] = []
    for part in dict.fromkeys((" ".join(words[:_WORDS]), " ".join(words[-_WORDS:]))):
        candidates = yield from search_keyword(snapshot, part, _CANDIDATES)
        reply = yield from lookup(snapshot, [chunk for chunk, _ in candidates])
        ids += [hit.document_id for hit in reply.hits]
    return tuple(dict.fromkeys(ids))


def _span_of_text(
    text: str, names: tuple[str, ...], text_of: Callable[[str], str]
) -> GoldSpan | None:
    """Return the first place of a text in these documents; None if none holds it."""
    pattern = re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)
    return next(_matches_in(pattern, names, text_of), None)


def _matches_in(
    pattern: re.Pattern[str], names: tuple[str, ...], text_of: Callable[[str], str]
) -> Iterator[GoldSpan]:
    for name in names:
        match = pattern.search(text_of(name))
        if match:
            yield GoldSpan(name, match.start(), match.end(), match[0])


def _with_spans(row: Row, spans: dict[str, GoldSpan | None]) -> Row:
    row_spans = [spans.get(text) for text in row.reference_contexts]
    return replace(
        row, reference_spans=tuple(dict.fromkeys(span for span in row_spans if span is not None))
    )
