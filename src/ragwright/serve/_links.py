"""Citations of a served answer: one number for each span, used in text, annotations and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ..answer import citation
from ..core import Answer, Citation, Hit, citation_marks, text_hash
from ..models import ExtractiveReranker

_STAMP = 12
"""Digits of the hash by which a link knows whether the passage is still there."""

_OPEN_MARK = re.compile(r"[ \t]*(?:[\[【][^\]】]{0,60})?\Z")
_FENCE = "```"
_TELLING = re.compile(r"[\[【`]")


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """A span of a source that an answer cites.

    Attributes:
        number: Its mark in the text, ``[number]``: from 1, in the order of first use.
        url: Opens the source at the span.
        citation: Document, page and characters.
        quote: The text of the span.
    """

    number: int
    url: str
    citation: Citation
    quote: str


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """Where a mark is in the served text: ``text[start:end]``, and what it cites."""

    start: int
    end: int
    span: CitedSpan


def source_url(base: str, document_id: str, start: int, end: int, quote: str) -> str:
    """The address of a span: it opens the document and marks the passage while it is there."""
    query = {"id": document_id, "start": start, "end": end, "v": text_hash(quote)[:_STAMP]}
    return f"{base}/source?{urlencode(query)}#passage"


def same_text(stamp: str, text: str) -> bool:
    """True where a link with this stamp was made for this text."""
    return text_hash(text)[:_STAMP] == stamp


def citation_json(span: CitedSpan) -> dict[str, Any]:
    """A cited span for programs."""
    cited = span.citation
    return {
        "number": span.number,
        "url": span.url,
        "title": cited.title,
        "source": cited.source,
        "document_id": cited.document_id,
        "chunk_id": cited.chunk_id,
        "page": cited.page,
        "start": cited.start,
        "end": cited.end,
        "ocr": cited.ocr,
        "quote": span.quote,
    }


def link_lines(spans: Sequence[CitedSpan]) -> str:
    """A list of sources as Markdown links, one a line; empty without any."""
    lines = [
        f"[{span.number}]: [{_plain(span.citation.title or span.citation.source)}]({span.url})"
        for span in spans
    ]
    return "\n\n" + "  \n".join(lines) if lines else ""


def _plain(title: str) -> str:
    """A title that cannot end its link."""
    return re.sub(r"[\[\]()<>\s]+", " ", title).strip()


class Marks:
    """Rewrites the marks of an answer as it arrives: ``[1]`` is the first span that is cited.

    Marks that name no passage are left out. Every span has one number, whatever the numbers of
    the passages in the prompt were.

    Args:
        resolve: The citation of the n-th mark (from 0) that names the passage of a number (from
            1), None where it names none.
        quote: The text of a citation's span.
        base: Address of the server; also an attribute.
    """

    def __init__(
        self,
        resolve: Callable[[int, int], Citation | None],
        quote: Callable[[Citation], str],
        base: str,
    ) -> None:
        self._resolve = resolve
        self._quote = quote
        self.base = base
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
        """The next piece of the served text; what may be the beginning of a mark is held back."""
        self._raw += piece
        end = len(self._raw) if last else self._safe()
        begin = len(self.text)
        if _TELLING.search(self._raw, self._done, end):
            fenced = self._raw[:end].count(_FENCE) % 2
            # A fence that is still open reads as code already.
            text = self._raw[:end] + (f"\n{_FENCE}" if fenced else "")
            for mark in citation_marks(text):
                if mark.start >= self._done and mark.end <= end:
                    self.text += self._raw[self._done : mark.start]
                    self._place(mark.numbers, begin)
                    self._done = mark.end
        self.text += self._raw[self._done : end]
        self._done = max(self._done, end)
        return self.text[begin:]

    def _safe(self) -> int:
        """How far the text cannot change its meaning any more."""
        end = len(self._raw)
        found = _OPEN_MARK.search(self._raw, max(self._done, end - 80))
        if found:
            end = found.start()
        line = self._raw.rfind("\n", 0, end) + 1
        # Code that is open, or may open, is held back from its first backtick.
        while (ticks := self._raw.count("`", line, end)) and (
            ticks % 2 or self._raw[end - 1] == "`"
        ):
            end = self._raw.rfind("`", line, end)
        return max(self._done, end)

    def _place(self, numbers: Sequence[int], begin: int) -> None:
        """Write the marks of these passages; ``text[:begin]`` was given away already."""
        placed = []
        for number in numbers:
            cited = self._resolve(self._seen, number)
            if cited is not None:
                placed.append(self._span(cited))
        self._seen += 1
        if not placed:
            self.text = self.text[:begin] + self.text[begin:].rstrip(" ")
        for span in dict.fromkeys(placed):
            begin = len(self.text)
            self.text += f"[{span.number}]"
            self.marks.append(PlacedMark(begin, len(self.text), span))

    def _span(self, cited: Citation) -> CitedSpan:
        key = (cited.document_id, cited.start, cited.end)
        if key not in self._spans:
            quote = self._quote(cited)
            url = source_url(self.base, cited.document_id, cited.start, cited.end, quote)
            self._spans[key] = CitedSpan(len(self._spans) + 1, url, cited, quote)
        return self._spans[key]


def marks_for_hits(hits: Callable[[], Sequence[Hit]], base: str) -> Marks:
    """Marks of an answer that a model writes: ``[n]`` is the n-th passage of the prompt."""

    def resolve(_: int, number: int) -> Citation | None:
        shown = hits()
        return citation(number, shown[number - 1]) if 1 <= number <= len(shown) else None

    return Marks(resolve, lambda cited: _quoted(hits(), cited), base)


def marks_of_answer(answer: Answer, base: str) -> Marks:
    """The marks of an answer that is there: its own citations, rewritten."""
    if answer.model != ExtractiveReranker.name:
        known = {one.marker: one for one in answer.citations}
        marks = Marks(lambda _, n: known.get(n), lambda cited: _quoted(answer.hits, cited), base)
    else:  # each quoted sentence has a mark and a citation of its own
        waiting = list(answer.citations)

        def resolve(_: int, number: int) -> Citation | None:
            found = waiting and waiting[0].marker == number
            return waiting.pop(0) if found else None

        marks = Marks(resolve, lambda cited: _quoted(answer.hits, cited), base)
    marks.feed(answer.text, last=True)
    return marks


def closest_spans(answer: Answer, base: str) -> list[CitedSpan]:
    """The passages that an abstention did not quote, best first, each with its link."""
    spans = []
    for number, near in enumerate(answer.closest, 1):
        cited = near.citation
        quote = _quoted(answer.hits, cited)
        url = source_url(base, cited.document_id, cited.start, cited.end, quote)
        spans.append(CitedSpan(number, url, cited, quote))
    return spans


def _quoted(hits: Sequence[Hit], cited: Citation) -> str:
    hit = next((h for h in hits if h.chunk_id == cited.chunk_id), None)
    return "" if hit is None else hit.text[cited.start - hit.start : cited.end - hit.start]
