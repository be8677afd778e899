"""Citations of replies, and marks of shown answers.

A reply cites by the numbers of the passages in its prompt. A shown answer has one number for each
cited span, from 1 in the order of first use: the command line, the pages and the server number
alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..core import Answer, Citation, Hit, citation_marks


def read_cited_numbers(text: str) -> list[int]:
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
    for number in read_cited_numbers(text):
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


Link: TypeAlias = Callable[[Citation, str], str]
"""The address that opens a citation whose span has this text; empty for none."""

_OPEN_MARK = re.compile(r"[ \t]*(?:[\[【][^\]】]{0,60})?\Z")
_FENCE = "```"
_TELLING = re.compile(r"[\[【`]")


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """A span of a source that an answer cites.

    Attributes:
        number: Its mark in the text, ``[number]``: from 1, in the order of first use.
        url: Opens the source at the span; empty where nothing serves it.
        citation: Document, page and characters.
        quote: The text of the span.
    """

    number: int
    url: str
    citation: Citation
    quote: str


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """The place of a mark, ``text[start:end]``, and the span that it cites."""

    start: int
    end: int
    span: CitedSpan


def _no_link(_cited: Citation, _quote: str) -> str:
    return ""


class Marks:
    """Rewrites the marks of an answer as it arrives: ``[1]`` is the first span that is cited.

    Marks that name no passage are left out. Every span has one number, whatever the numbers of
    the passages in the prompt were.

    Args:
        resolve: The citation of the n-th mark (from 0) that names the passage of a number (from
            1), None where it names none.
        quote: The text of a citation's span.
        link: The address that opens a citation with this text; also an attribute.
    """

    def __init__(
        self,
        resolve: Callable[[int, int], Citation | None],
        quote: Callable[[Citation], str],
        link: Link,
    ) -> None:
        self._resolve = resolve
        self._quote = quote
        self.link = link
        self._raw = ""
        self._done = 0
        self._seen = 0
        self._spans: dict[tuple[str, int, int], CitedSpan] = {}
        self.text = ""
        self.marks: list[PlacedMark] = []

    @property
    def spans(self) -> tuple[CitedSpan, ...]:
        """The spans cited so far, by number."""
        return tuple(self._spans.values())

    def feed(self, piece: str, *, last: bool = False) -> str:
        """The next piece of the shown text, without a citation mark that is not complete yet."""
        self._raw += piece
        end = len(self._raw) if last else self._safe_end()
        begin = len(self.text)
        if _TELLING.search(self._raw, self._done, end):
            fenced = self._raw[:end].count(_FENCE) % 2
            # A fence that is still open reads as code already.
            text = self._raw[:end] + (f"\n{_FENCE}" if fenced else "")
            for mark in citation_marks(text):
                if mark.start >= self._done and mark.end <= end:
                    self.text += self._raw[self._done : mark.start]
                    self._write_marks(mark.numbers, begin)
                    self._done = mark.end
        self.text += self._raw[self._done : end]
        self._done = max(self._done, end)
        return self.text[begin:]

    def _safe_end(self) -> int:
        """The end of the text that later pieces can no longer change."""
        end = len(self._raw)
        open_mark = _OPEN_MARK.search(self._raw, max(self._done, end - 80))
        if open_mark:
            end = open_mark.start()
        line = self._raw.rfind("\n", 0, end) + 1
        # Code that is open, or may open, is held back from its first backtick.
        while (ticks := self._raw.count("`", line, end)) and (
            ticks % 2 or self._raw[end - 1] == "`"
        ):
            end = self._raw.rfind("`", line, end)
        return max(self._done, end)

    def _write_marks(self, numbers: Sequence[int], begin: int) -> None:
        """Write the marks of these passages; ``text[:begin]`` was given away already."""
        placed = []
        for number in numbers:
            cited = self._resolve(self._seen, number)
            if cited is not None:
                key = (cited.document_id, cited.start, cited.end)
                if key not in self._spans:
                    quote, count = self._quote(cited), len(self._spans)
                    url = self.link(cited, quote)
                    self._spans[key] = CitedSpan(count + 1, url, cited, quote)
                placed.append(self._spans[key])
        self._seen += 1
        last = self.marks[-1] if self.marks else None
        again = last and {*placed} == {last.span} and not self.text[last.end :].strip(" ")
        if not placed or again:  # `[1] [1]` is `[1]`
            self.text = self.text[:begin] + self.text[begin:].rstrip(" ")
        for span in () if again else dict.fromkeys(placed):
            begin = len(self.text)
            self.text += f"[{span.number}]"
            self.marks.append(PlacedMark(begin, len(self.text), span))


def marks_for_hits(hits: Callable[[], Sequence[Hit]], link: Link = _no_link) -> Marks:
    """Marks of an answer that a model writes: ``[n]`` is the n-th passage of the prompt."""

    def resolve(_: int, number: int) -> Citation | None:
        passages = hits()
        return citation(number, passages[number - 1]) if 1 <= number <= len(passages) else None

    return Marks(resolve, lambda cited: find_quoted_text(hits(), cited), link)


def marks_of_answer(answer: Answer, link: Link = _no_link) -> Marks:
    """The marks of a finished answer: its own citations, rewritten."""
    by_marker: dict[int, list[Citation]] = {}
    for cited in answer.citations:
        by_marker.setdefault(cited.marker, []).append(cited)

    def of_passage(_: int, number: int) -> Citation | None:
        """Items read from one passage have a citation each; a model cites the whole passage."""
        left_over = by_marker.get(number, [])
        return left_over.pop(0) if len(left_over) > 1 else left_over[0] if left_over else None

    marks = Marks(of_passage, lambda cited: find_quoted_text(answer.hits, cited), link)
    marks.feed(answer.text, last=True)
    return marks


def find_quoted_text(hits: Sequence[Hit], cited: Citation) -> str:
    """The text of a cited span, empty where its passage is not among the hits.

    Rows of a table and excerpts are not the text of their span: they are quoted as they are.
    """
    hit = next((h for h in hits if h.chunk_id == cited.chunk_id), None)
    if hit is None:
        return ""
    if (cited.start, cited.end) == (hit.start, hit.end):
        return hit.text
    return hit.text[cited.start - hit.start : cited.end - hit.start]
