"""Retrieval measured against gold spans: evidence that does not depend on the chunking.

A retrieved passage covers a gold span when it holds at least half of the span's characters.
Passages are read in order; the first one that covers a span gets its gain. The ideal is the number
of spans, whatever the size of the passages, so figures are comparable across chunk sizes.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..core import GoldSpan, Row, Span, citation_marks
from ._gold import NoGold
from ._measure import Measure


def span_value(row: Row, measure: Measure) -> float | str:
    """A measure of kind ``retrieval`` or ``span`` against the gold spans of a row, 0 to 1.

    Returns the reason if the measure does not apply to these spans.
    """
    if "rel=" in measure.parameter.removesuffix("norel=skip"):
        return NoGold(f"gold spans have no grades for {measure.parameter}")
    k = sys.maxsize if measure.cutoff is None else measure.cutoff
    if measure.definition.kind == "span":
        return _character_value(measure.name, row.retrieved_spans[:k], row.reference_spans)
    earned = spans_earned(row.retrieved_spans[:k], row.reference_spans)
    gold = len(set(_span_places(row.reference_spans)))
    return _FROM_EARNED[measure.name](earned, gold, k)


def citation_value(row: Row, measure: Measure) -> float | str:
    """`CitationPrecision` or `CitationRecall` of the passages that an answer cites, 0 to 1.

    The marks are those in the response, and the numbers that were resolved in it before
    (``metadata["cited"]``).
    """
    known = row.metadata.get("cited")
    numbers = {int(text) for text in known} if isinstance(known, tuple) else set[int]()
    numbers |= {n for mark in citation_marks(row.response_text) for n in mark.numbers}
    if not numbers and measure.name == "CitationPrecision":
        return "the response cites nothing"
    if row.reference_spans and row.retrieved_spans:
        passages: Sequence[GoldSpan] = row.retrieved_spans
        gold = len(set(_span_places(row.reference_spans)))
    else:
        passages = [GoldSpan(name, 0, 1) for name in row.retrieved_context_ids]
        relevant = (name for name, grade in row.reference_ids.items() if grade > 0)
        row = replace(row, reference_spans=tuple(GoldSpan(name, 0, 1) for name in relevant))
        gold = len(row.reference_spans)
    cited = [passages[number - 1] for number in numbers if number <= len(passages)]
    if measure.name == "CitationRecall":
        found = sum(spans_earned(cited, row.reference_spans))
        return found / gold if gold else NoGold("no relevant document")
    return sum(any(spans_earned([one], row.reference_spans)) for one in cited) / len(numbers)


def spans_earned(retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> list[int]:
    """Number of gold spans that each passage is the first to cover by at least half, in order."""
    uncovered = dict.fromkeys(_span_places(gold))
    earned = []
    for passage in retrieved:
        passage_span = Span(passage.start, passage.end)
        covered = [
            (document, span)
            for document, span in uncovered
            if document == passage.document_id and 2 * passage_span.overlap(span) >= span.length
        ]
        for place in covered:
            del uncovered[place]
        earned.append(len(covered))
    return earned


def _span_places(spans: Iterable[GoldSpan]) -> list[tuple[str, Span]]:
    return [(span.document_id, Span(span.start, span.end)) for span in spans]


def _span_hit_rate(earned: Sequence[int], gold: int, k: int) -> float:
    return float(any(earned))


def _span_recall(earned: Sequence[int], gold: int, k: int) -> float:
    return sum(earned) / gold


def _hit_precision(earned: Sequence[int], gold: int, k: int) -> float:
    return sum(count > 0 for count in earned) / k


def _span_reciprocal_rank(earned: Sequence[int], gold: int, k: int) -> float:
    return next((1 / rank for rank, count in enumerate(earned, 1) if count), 0.0)


def _span_ndcg(earned: Sequence[int], gold: int, k: int) -> float:
    # A passage that covers several spans would beat the ideal of one per rank; its further spans
    # take the next places instead, so that the maximum is 1 and whole passages can reach it.
    gain, place = 0.0, 0
    for rank, count in enumerate(earned, 1):
        for _ in range(count):
            place = max(rank, place + 1)
            gain += 1 / math.log2(place + 1) if place <= k else 0.0
    return gain / math.fsum(1 / math.log2(n + 1) for n in range(1, min(gold, k) + 1))


def _character_value(name: str, retrieved: Sequence[GoldSpan], gold: Sequence[GoldSpan]) -> float:
    retrieved_ranges, gold_ranges = _disjoint_ranges(retrieved), _disjoint_ranges(gold)
    common = sum(
        max(0, min(end, other_end) - max(start, other_start))
        for document, ranges in retrieved_ranges.items()
        for start, end in ranges
        for other_start, other_end in gold_ranges.get(document, ())
    )
    size, gold_size = _total_length(retrieved_ranges), _total_length(gold_ranges)
    if name == "SpanPrecision":
        return common / size if size else 0.0  # a search that found nothing covers no span
    return common / (size + gold_size - common)


def _disjoint_ranges(spans: Iterable[GoldSpan]) -> dict[str, list[tuple[int, int]]]:
    """Document -> disjoint ranges of characters, in order."""
    by_document: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start):
        ranges = by_document[span.document_id]
        if ranges and span.start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.end))
        else:
            ranges.append((span.start, span.end))
    return by_document


def _total_length(ranges: dict[str, list[tuple[int, int]]]) -> int:
    return sum(end - start for spans in ranges.values() for start, end in spans)


_FROM_EARNED = {
    "HitRate": _span_hit_rate,
    "MRR": _span_reciprocal_rank,
    "Precision": _hit_precision,
    "Recall": _span_recall,
    "nDCG": _span_ndcg,
}
