"""Rows of other tools as a testset: passages located in the documents, labels, splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...core import GoldSpan, MetaValue, Row
from .._splits import assign_splits, fold_clusters
from .._stale import moved_row, stale_rows
from ._candidates import located
from ._survey import Survey
from ._synthesis import FEW_DOCUMENTS

_FAULTS = {
    "none": "a gold passage is not in any document",
    "several": "a gold passage occurs in several places",
}


def imported_rows(
    rows: Sequence[Row], documents: Iterable[tuple[str, str]], survey: Survey
) -> tuple[tuple[Row, ...], Mapping[str, int]]:
    """Rows with gold as spans, ``kind``, ``leak`` and ``split``, and the passages not found.

    ``reference_contexts`` of a row without spans are searched for literally (white space may
    differ), in its ``reference_ids`` if it has some, else everywhere; only a passage at exactly one
    place becomes a span. Spans whose text moved get their new place. Existing labels are kept; rows
    are never dropped.

    Args:
        rows: Rows as read.
        documents: (id, text) of every document; read once.
        survey: Survey of the same documents.
    """
    wanted = {
        text for row in rows if not row.reference_spans for text in row.reference_contexts if text
    }
    named = {span.document_id for row in rows for span in row.reference_spans}
    places: dict[str, list[GoldSpan]] = {}
    texts: dict[str, str] = {}
    for name, text in documents:
        found = _found(wanted, name, text)
        for passage, spans in found.items():
            places.setdefault(passage, []).extend(spans)
        if found or name in named:
            texts[name] = text
    stale = stale_rows(rows, texts.get)
    counts = {"gold spans moved with their text": len({s.row_id for s in stale if s.now})}
    counts["gold spans whose text no longer exists"] = len({s.row_id for s in stale if not s.now})
    made = []
    for row in rows:
        row = moved_row(row, stale)
        gold, faults = _spans(row, places)
        for fault in faults:
            counts[_FAULTS[fault]] = counts.get(_FAULTS[fault], 0) + 1
        made.append(replace(row, reference_spans=gold))
    splits = assign_splits(made)
    if len(set(splits.values())) < 2:
        # All rows are on one document, or few: passages are split, or nothing could be confirmed.
        splits = assign_splits(made, clusters=fold_clusters(made, FEW_DOCUMENTS))
    labelled = (_labelled(row, splits[row.id], survey, texts) for row in made)
    return tuple(labelled), {name: count for name, count in counts.items() if count}


def _found(wanted: set[str], name: str, text: str) -> dict[str, list[GoldSpan]]:
    """Positions of the passages in a document; at most two are returned."""
    flat = " ".join(text.split())
    found: dict[str, list[GoldSpan]] = {}
    for passage in wanted:
        # Cheap check first: most passages are not in this document.
        if passage not in text and " ".join(passage.split()) not in flat:
            continue
        span, _ = located(passage, text, 0, name)
        nothing = GoldSpan(name, 0, 0)
        found[passage] = [span] if span is not None else [nothing, nothing]
    return found


def _spans(
    row: Row, places: Mapping[str, Sequence[GoldSpan]]
) -> tuple[tuple[GoldSpan, ...], list[str]]:
    """Gold spans of a row, and why passages gave none."""
    if row.reference_spans:
        return row.reference_spans, []
    spans: list[GoldSpan] = []
    faults = []
    for passage in filter(None, row.reference_contexts):
        found = [
            span
            for span in places.get(passage, ())
            if not row.reference_ids or span.document_id in row.reference_ids
        ]
        if len(found) == 1:
            spans.append(found[0])
        else:
            faults.append("several" if found else "none")
    return tuple(dict.fromkeys(spans)), faults


def _labelled(row: Row, split: str, survey: Survey, texts: Mapping[str, str]) -> Row:
    metadata: dict[str, MetaValue] = {"kind": "imported", "split": split}
    if row.reference_spans:
        span = row.reference_spans[0]
        chunk = survey.chunk_of(span.document_id, span.start, span.end)
        text = texts.get(span.document_id)
        if chunk is not None and text is not None:
            leak = survey.vocabulary.leak(row.user_input, text[chunk.start : chunk.end])
            metadata |= {} if leak is None else {"leak": leak}
    return replace(row, metadata={**metadata, **row.metadata})
