"""Passages of a system against gold: by their text, or by the ids of their documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ...core import GoldSpan, Row, case_folded, text_hash
from ...flow import SystemReply
from ...models import without_thought

Match = Literal["auto", "text", "ids"]

_GOLD = "gold"
"""Document of gold passages that name none."""


def with_reply(row: Row, reply: SystemReply, match: Match = "auto") -> Row:
    """Add a system's reply to a row without an answer, and match its passages with the gold.

    By text (``match`` ``auto`` or ``text``, if gold has texts and the system returned passages): a
    passage covers a gold text if it holds all of it, its first or last half, or lies in it and is
    at least half as long, ignoring white space and case. Gold passages (``reference_contexts``)
    become gold spans. By ids: the document ids of the system are compared with ``reference_ids`` or
    the documents of the gold spans.
    """
    has_ids = reply.context_ids is not None
    row = replace(
        row,
        response=reply.response and without_thought(reply.response),
        retrieved_contexts=reply.contexts,
        retrieved_context_ids=reply.context_ids or (),
        metadata={
            **row.metadata,
            **({"retrieved": True} if has_ids else {}),
            **({"abstained": True} if reply.abstained else {}),
        },
    )
    gold = _gold_spans(row) if match != "ids" else ()
    if gold and (reply.contexts or has_ids or reply.response is None):
        passages = tuple(_passage_span(text, gold) for text in reply.contexts)
        metadata = {**row.metadata, "retrieved": True}
        return replace(row, reference_spans=gold, retrieved_spans=passages, metadata=metadata)
    gold_ids = {span.document_id: 1 for span in row.reference_spans}
    if gold_ids and match != "text":
        return replace(row, reference_ids=row.reference_ids or gold_ids, reference_spans=())
    return row


def meets_gold(row: Row) -> bool:
    """True if a passage of a row is gold."""
    gold = {span.document_id for span in row.reference_spans}
    if row.retrieved_spans:
        return any(span.document_id in gold for span in row.retrieved_spans)
    return any(name in row.reference_ids for name in row.retrieved_context_ids)


def _gold_spans(row: Row) -> tuple[GoldSpan, ...]:
    """Return gold with texts: the spans of a row, or else its gold passages, in order."""
    if row.reference_spans:
        return row.reference_spans if all(s.text.strip() for s in row.reference_spans) else ()
    if row.reference_ids:
        return ()
    spans, start = [], 0
    for text in row.reference_contexts:
        if text.strip():
            spans.append(GoldSpan(_GOLD, start, start + len(text), text))
            start += len(text) + 1
    return tuple(spans)


def _passage_span(passage: str, gold: Sequence[GoldSpan]) -> GoldSpan:
    """Return a passage as the span of the gold that it covers, or as a span of its own document."""
    normalised = case_folded(passage)
    covered = [span for span in gold if _covers_gold(normalised, case_folded(span.text))]
    if not covered:
        return GoldSpan(f"passage {text_hash(normalised)[:12]}", 0, max(1, len(passage)), passage)
    first = covered[0]
    same_document = [span for span in covered if span.document_id == first.document_id]
    start, end = min(s.start for s in same_document), max(s.end for s in same_document)
    between = [
        s for s in gold if s.document_id == first.document_id and start <= s.start and s.end <= end
    ]
    if len(between) > len(
        same_document
    ):  # the range would claim gold that the passage does not hold
        start, end = first.start, first.end
    return GoldSpan(first.document_id, start, end, passage)


def _covers_gold(passage: str, gold: str) -> bool:
    if not gold or not passage:
        return False
    half = (len(gold) + 1) // 2
    if passage in gold:
        return len(passage) >= half
    return gold in passage or gold[:half] in passage or gold[-half:] in passage
