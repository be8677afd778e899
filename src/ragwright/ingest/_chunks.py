"""Makes chunks of spans, and checks that every chunker keeps its contract."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TypeAlias

from ..core import Chunk, ChunkError, Document, Section, Span


def check_spans(document: Document, spans: Sequence[Span]) -> None:
    """Check a chunker's spans.

    Spans are sorted by start, none is empty, no two are equal, and together they cover the
    text without a gap. It follows that joining them (overlaps once) gives the text back
    exactly. Linear in the number of spans.

    Raises:
        ChunkError: Names the first span that breaks the contract.
    """
    covered = 0
    last = Span(0, 0)
    for number, span in enumerate(spans):
        fault = ""
        if span.end <= span.start or span.start < 0:
            fault = "is empty"
        elif (span.start, span.end) <= (last.start, last.end):
            fault = "does not follow the span before it"
        elif span.start > covered:
            fault = f"leaves the characters {covered}-{span.start} out"
        if fault:
            raise ChunkError(
                f"span {number} ({span.start}-{span.end}) {fault}",
                where=document.id,
                hint="a chunker returns sorted spans that cover the text, none empty",
            )
        covered = max(covered, span.end)
        last = span
    if covered != len(document.text):
        raise ChunkError(
            f"the spans end at {covered}, the text at {len(document.text)}", where=document.id
        )


def first_character(text: str, start: int) -> int:
    """Find a piece's first character that is not white space; a position in the document."""
    return start + len(text) - len(text.lstrip()) if text.strip() else start


def make_chunks(
    document: Document, spans: Sequence[Span], tokens: Iterable[int]
) -> tuple[Chunk, ...]:
    """Make chunks with their pages and the headings of their first character.

    A chunk that opens with headings alone takes those of the last of them: of
    ``# Pump`` and then ``## Seal``, both.

    Args:
        document: Document that was cut.
        spans: Its pieces; checked here.
        tokens: Length of each piece in tokens, 0 if not counted.

    Raises:
        ChunkError: The spans break the contract.
    """
    check_spans(document, spans)
    text = document.text
    known = document.pages or document.sections
    places = _places(document, spans) if known else repeat(_NOWHERE)
    return tuple(
        Chunk(
            id=f"{document.id}:{span.start}-{span.end}",
            document_id=document.id,
            ordinal=ordinal,
            span=span,
            text=text[span.start : span.end],
            page=page,
            headings=titles,
            tokens=count,
            pages=further,
        )
        for ordinal, ((span, count), (page, further, titles)) in enumerate(
            zip(zip(spans, tokens, strict=True), places, strict=False)
        )
    )


_Place: TypeAlias = tuple[int | None, tuple[tuple[int, int], ...], tuple[str, ...]]
"""Page of a chunk's first character, further pages, headings."""

_NOWHERE: _Place = (None, (), ())


def _places(document: Document, spans: Sequence[Span]) -> Iterator[_Place]:
    anchors = [first_character(document.text[s.start : s.end], s.start) for s in spans]
    return zip(
        _pages(document, anchors),
        _further_pages(document, spans, anchors),
        _headings(document, spans, anchors),
        strict=True,
    )


def _pages(document: Document, positions: Sequence[int]) -> Iterator[int | None]:
    """Do `Document.page_at` for many positions, by bisection."""
    starts = [page.span.start for page in document.pages]
    for position in positions:
        at = bisect_right(starts, position) - 1
        # an empty page starts where the next one does
        while at > 0 and document.pages[at].span.length == 0:
            at -= 1
        page = document.pages[at] if at >= 0 else None
        yield page.number if page and page.span.start <= position < page.span.end else None


def _further_pages(
    document: Document, spans: Sequence[Span], anchors: Sequence[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Return positions and numbers of the pages that begin after each chunk's first text."""
    pages = [page for page in document.pages if page.span.length]
    starts = [page.span.start for page in pages]
    for span, anchor in zip(spans, anchors, strict=True):
        inside = pages[bisect_right(starts, anchor) : bisect_left(starts, span.end)]
        yield tuple((page.span.start, page.number) for page in inside)


def _headings(
    document: Document, spans: Sequence[Span], anchors: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    """Return the titles of the sections that hold each chunk's first text, in one sweep."""
    sections = sorted(document.sections, key=lambda s: s.span.start)
    starts = [section.span.start for section in sections]
    active: list[Section] = []
    taken = 0
    for span, anchor in zip(spans, anchors, strict=True):
        position = _below_headings(document.text, starts, anchor, span.end)
        upto = bisect_right(starts, position)
        active += sections[taken:upto]
        taken = max(taken, upto)
        active = [section for section in active if anchor < section.span.end]
        yield tuple(s.title for s in active if s.span.start <= position < s.span.end)


def _below_headings(text: str, starts: Sequence[int], position: int, end: int) -> int:
    """Find the last of the headings that directly follow each other from a position on."""
    at = bisect_right(starts, position) - 1
    if at < 0 or starts[at] != position:
        return position
    while at + 1 < len(starts) and starts[at + 1] < end:
        if "\n" in text[starts[at] : starts[at + 1]].strip():
            break
        at += 1
    return starts[at]
