"""Citation marks in a reply: found, resolved to passages, reported if they name none."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Citation, Hit, citation_marks


def cited_numbers(text: str) -> list[int]:
    """Passage numbers that a reply cites, in order of first use: ``[1]``, ``[1, 2]``, ``[1-3]``."""
    return list(dict.fromkeys(n for mark in citation_marks(text) for n in mark.numbers))


def resolve_citations(
    text: str, hits: Sequence[Hit]
) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
    """Citations of a reply, in order of first use, and notes on marks that name no passage.

    A citation points to the whole passage: its source, page and span.
    """
    citations: list[Citation] = []
    unknown: list[int] = []
    for number in cited_numbers(text):
        if 1 <= number <= len(hits):
            citations.append(citation(number, hits[number - 1]))
        else:
            unknown.append(number)
    notes = tuple(
        f"the mark [{n}] does not match a passage (there are {len(hits)})" for n in sorted(unknown)
    )
    return tuple(citations), notes


def citation(marker: int, hit: Hit, start: int | None = None, end: int | None = None) -> Citation:
    """The citation of a hit, or of a span (in its document's characters) within it."""
    page = hit.page if start is None else hit.page_at(start)
    return Citation(
        marker,
        hit.source,
        hit.document_id,
        hit.chunk_id,
        hit.title,
        page,
        hit.start if start is None else start,
        hit.end if end is None else end,
        hit.ocr_at(page),
    )
