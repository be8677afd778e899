"""Passages of a system against gold: by their text, or by the ids of their documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ...core import GoldSpan, Row, text_hash
from ...flow import SystemReply

Match = Literal["auto", "text", "ids"]

_GOLD = "gold"
"""Document of gold passages that name none."""


def with_reply(row: Row, reply: SystemReply, match: Match = "auto") -> Row:
    """A row without an answer, with what a system said and where its passages are in the gold.

    By text (``match`` ``auto`` or ``text``, where gold has texts and the system gave passages): a
    passage covers a gold text when it holds all of it, its first or its last half, or lies in it
    and is at least half as long; white space and case do not count. Gold passages
    (``reference_contexts``) become gold spans. By ids: the ids of documents that the system gave,
    against ``reference_ids`` or the documents of the gold spans.
    """
    told = reply.context_ids is not None
    row = replace(
        row,
        response=reply.response,
        retrieved_contexts=reply.contexts,
        retrieved_context_ids=reply.context_ids or (),
        metadata={
            **row.metadata,
            **({"retrieved": True} if told else {}),
            **({"abstained": True} if reply.abstained else {}),
        },
    )
    gold = _gold_spans(row) if match != "ids" else ()
    if gold and (reply.contexts or told or reply.response is None):
        passages = tuple(_placed(text, gold) for text in reply.contexts)
        metadata = {**row.metadata, "retrieved": True}
        return replace(row, reference_spans=gold, retrieved_spans=passages, metadata=metadata)
    named = {span.document_id: 1 for span in row.reference_spans}
    if named and match != "text":
        return replace(row, reference_ids=row.reference_ids or named, reference_spans=())
    return row


def meets_gold(row: Row) -> bool:
    """True where a passage of a row is gold."""
    gold = {span.document_id for span in row.reference_spans}
    if row.retrieved_spans:
        return any(span.document_id in gold for span in row.retrieved_spans)
    return any(name in row.reference_ids for name in row.retrieved_context_ids)


def _gold_spans(row: Row) -> tuple[GoldSpan, ...]:
    """Gold with texts: the spans of a row, else its gold passages, one after the other."""
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


def _placed(passage: str, gold: Sequence[GoldSpan]) -> GoldSpan:
    """A passage as the span of the gold that it covers; a place of its own where it covers none."""
    plain = _plain(passage)
    covered = [span for span in gold if _covers(plain, _plain(span.text))]
    if not covered:
        return GoldSpan(f"passage {text_hash(plain)[:12]}", 0, max(1, len(passage)), passage)
    first = covered[0]
    here = [span for span in covered if span.document_id == first.document_id]
    start, end = min(s.start for s in here), max(s.end for s in here)
    between = [
        s for s in gold if s.document_id == first.document_id and start <= s.start and s.end <= end
    ]
    if len(between) > len(here):  # the range would claim gold that the passage does not hold
        start, end = first.start, first.end
    return GoldSpan(first.document_id, start, end, passage)


def _covers(passage: str, gold: str) -> bool:
    if not gold or not passage:
        return False
    half = (len(gold) + 1) // 2
    if passage in gold:
        return len(passage) >= half
    return gold in passage or gold[:half] in passage or gold[-half:] in passage


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
