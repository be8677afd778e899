"""Rows of other tools as a testset: passages located in the documents, labels, splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...core import GoldSpan, MetaValue, Row
from .._splits import assign_splits, fold_clusters
from .._stale import move_row, stale_rows
from ._candidates import locate_quote
from ._survey import Survey
from ._synthesis import FEW_DOCUMENTS

_FAULTS = {
    "none": "a gold passage is not in any document",
    "several": "a gold passage occurs in several places",
}


def import_rows(
    rows: Sequence[Row], documents: Iterable[tuple[str, str]], survey: Survey
) -> tuple[tuple[Row, ...], Mapping[str, int]]:
    """Return rows with gold as spans, ``kind``, ``leak`` and ``split``, and count faults.

    ``reference_contexts`` of a row without spans are searched for literally (white space may
    differ), in its ``reference_ids`` if it has some, else everywhere; only a passage at exactly one
    place becomes a span. Spans whose text moved get their new place. Existing labels are kept; rows
    are never dropped.

    Args:
        rows: Rows as read.
        documents: (id, text) of every document; read once.
        survey: Survey of the same documents.
    """
    wanted_passages = {
        text for row in rows if not row.reference_spans for text in row.reference_contexts if text
    }
    span_documents = {span.document_id for row in rows for span in row.reference_spans}
    places: dict[str, list[GoldSpan]] = {}
    texts: dict[str, str] = {}
    for name, text in documents:
        by_passage = _passages_in(wanted_passages, name, text)
        for passage, spans in by_passage.items():
            places.setdefault(passage, []).extend(spans)
        if by_passage or name in span_documents:
            texts[name] = text
    stale = stale_rows(rows, texts.get)
    counts = {"gold spans moved with their text": len({s.row_id for s in stale if s.now})}
    counts["gold spans whose text no longer exists"] = len({s.row_id for s in stale if not s.now})
    located_rows = []
    for row in rows:
        row = move_row(row, stale)
        gold, faults = _gold_spans_of(row, places)
        for fault in faults:
            counts[_FAULTS[fault]] = counts.get(_FAULTS[fault], 0) + 1
        located_rows.append(replace(row, reference_spans=gold))
    splits = assign_splits(located_rows)
    if len(set(splits.values())) < 2:
        # The rows are on one or few documents: split by passage, else nothing could be confirmed.
        splits = assign_splits(located_rows, clusters=fold_clusters(located_rows, FEW_DOCUMENTS))
    labelled = (_with_labels(row, splits[row.id], survey, texts) for row in located_rows)
    return tuple(labelled), {name: count for name, count in counts.items() if count}


def _passages_in(passages: set[str], name: str, text: str) -> dict[str, list[GoldSpan]]:
    """Locate passages in a document; return at most two places of each."""
    flat = " ".join(text.split())
    spans_by_passage: dict[str, list[GoldSpan]] = {}
    for passage in passages:
        # Cheap check first: most passages are not in this document.
        if passage not in text and " ".join(passage.split()) not in flat:
            continue
        span, _ = locate_quote(passage, text, 0, name)
        nothing = GoldSpan(name, 0, 0)
        spans_by_passage[passage] = [span] if span is not None else [nothing, nothing]
    return spans_by_passage


def _gold_spans_of(
    row: Row, places: Mapping[str, Sequence[GoldSpan]]
) -> tuple[tuple[GoldSpan, ...], list[str]]:
    """Return the gold spans of a row, and the faults of passages without one."""
    if row.reference_spans:
        return row.reference_spans, []
    spans: list[GoldSpan] = []
    faults = []
    for passage in filter(None, row.reference_contexts):
        matches = [
            span
            for span in places.get(passage, ())
            if not row.reference_ids or span.document_id in row.reference_ids
        ]
        if len(matches) == 1:
            spans.append(matches[0])
        else:
            faults.append("several" if matches else "none")
    return tuple(dict.fromkeys(spans)), faults


def _with_labels(row: Row, split: str, survey: Survey, texts: Mapping[str, str]) -> Row:
    metadata: dict[str, MetaValue] = {"kind": "imported", "split": split}
    if row.reference_spans:
        span = row.reference_spans[0]
        chunk = survey.chunk_of(span.document_id, span.start, span.end)
        text = texts.get(span.document_id)
        if chunk is not None and text is not None:
            leak = survey.vocabulary.leak(row.user_input, text[chunk.start : chunk.end])
            metadata |= {} if leak is None else {"leak": leak}
    return replace(row, metadata={**metadata, **row.metadata})
