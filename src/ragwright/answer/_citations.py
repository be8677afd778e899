"""Citation marks in a reply: found, resolved to passages, reported where they name none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..core import Citation, Hit

_MARK = re.compile(
    r"[\[【]\s*(\d{1,3}(?:\s*(?:,|;|&|and|et|-|–|—)\s*\d{1,3})*)\s*(?:†[^\]】]{0,40})?[\]】]"
)
"""One to three digits: a year in brackets is no citation."""

_PART = re.compile(r"(\d{1,3})\s*(?:[-–—]\s*(\d{1,3}))?")


def cited_numbers(text: str) -> list[int]:
    """Passage numbers that a reply cites, in order of first use: ``[1]``, ``[1, 2]``, ``[1-3]``."""
    return list(dict.fromkeys(n for _, numbers in _marks(text) for n in numbers))


def resolve_citations(
    text: str, hits: Sequence[Hit]
) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
    """Citations of a reply, in order of first use, and notes on marks that name no passage.

    A citation points to the whole passage: its source, page and span.
    """
    found: list[Citation] = []
    wrong: list[int] = []
    for number in cited_numbers(text):
        if 1 <= number <= len(hits):
            found.append(citation(number, hits[number - 1]))
        else:
            wrong.append(number)
    notes = tuple(
        f"the mark [{n}] names no passage ({len(hits)} were given)" for n in sorted(wrong)
    )
    return tuple(found), notes


def citation(marker: int, hit: Hit, start: int | None = None, end: int | None = None) -> Citation:
    """The citation of a hit, or of a span (in its document's characters) within it."""
    return Citation(
        marker,
        hit.source,
        hit.document_id,
        hit.chunk_id,
        hit.title,
        hit.page if start is None else hit.page_at(start),
        hit.start if start is None else start,
        hit.end if end is None else end,
    )


def _marks(text: str) -> Iterator[tuple[re.Match[str], list[int]]]:
    for match in _MARK.finditer(text):
        numbers: list[int] = []
        for first, last in _PART.findall(match[1]):
            low, high = int(first), int(last or first)
            # A range that runs backwards or far is no range: its ends stand for themselves.
            numbers += range(low, high + 1) if 0 <= high - low <= 50 else [low, high]
        yield match, numbers
