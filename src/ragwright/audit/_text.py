"""What every detector needs of a document: its address, its statements, its lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..core import Document, Page
from ..models import sentence_spans
from ._records import Place

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_RULE = re.compile(r"^\s*\|\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_LISTED = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_BLANK = re.compile(r"\n[ \t]*\n")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]{1,200})\]\((?P<to>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
"""A link in Markdown; images are none."""


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A line of a document: its characters, and what it is."""

    text: str
    start: int
    code: bool = False

    @property
    def end(self) -> int:
        """End of the line, exclusive."""
        return self.start + len(self.text)

    @property
    def row(self) -> bool:
        """True for a row of a table in Markdown."""
        return not self.code and _ROW.match(self.text) is not None

    @property
    def rule(self) -> bool:
        """True for the line between the head of a table and its rows."""
        return self.row and _RULE.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class Brief:
    """What is remembered of a document once it has been read."""

    number: int
    id: str
    source: str
    title: str
    language: str
    date: str
    pages: tuple[Page, ...] = ()

    def page_at(self, position: int) -> int | None:
        """Number of the page of a character; None without pages."""
        at = bisect_right(self.pages, position, key=lambda page: page.span.start) - 1
        return self.pages[at].number if at >= 0 else None


@dataclass(slots=True)
class AuditCorpus:
    """The documents of an audit: what is remembered of each, and how to read one again.

    ``read`` returns the text of a document; it is called for the few places of findings alone.
    """

    read: Callable[[str], Document | None]
    briefs: list[Brief] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    _last: tuple[int, str] = (-1, "")

    def add(self, document: Document) -> Brief:
        """Remember a document."""
        brief = Brief(
            len(self.briefs),
            document.id,
            document.source,
            document.title,
            document.language,
            document.modified or document.created,
            document.pages,
        )
        self.briefs.append(brief)
        self.numbers[brief.id] = brief.number
        return brief

    def text(self, number: int) -> str:
        """Text of a document, read again."""
        if self._last[0] != number:
            document = self.read(self.briefs[number].id)
            self._last = number, document.text if document else ""
        return self._last[1]

    def place(self, number: int, start: int, end: int, text: str = "") -> Place:
        """A place of a document, with its text."""
        brief = self.briefs[number]
        content = text or self.text(number)[start:end]
        return Place(brief.id, brief.source, start, end, content[:2_000], brief.page_at(start))


def lines_of(text: str) -> Iterator[DocumentLine]:
    """The lines of a text, those of code blocks marked."""
    start, fenced = 0, False
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        yield DocumentLine(line, start, fenced or fence)
        fenced = fenced != fence
        start += len(line) + 1


def tables_of(lines: Sequence[DocumentLine]) -> Iterator[Sequence[DocumentLine]]:
    """Runs of rows: the tables of a document."""
    at = 0
    while at < len(lines):
        last = at
        while last < len(lines) and lines[last].row:
            last += 1
        if last > at:
            yield lines[at:last]
        at = last + 1


def cells_of(line: DocumentLine) -> list[str]:
    """Cells of a row."""
    return [cell.strip() for cell in line.text.strip().strip("|").split("|")]


def statements_of(lines: Sequence[DocumentLine], language: str) -> Iterator[tuple[int, int, str]]:
    """Sentences and items of lists outside tables, headings and code: start, end, text."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.code or line.row or not line.text.strip() or line.text.lstrip().startswith("#"):
            at += 1
            continue
        last = at + 1
        while last < len(lines) and _continues(lines[last]):
            last += 1
        block = "\n".join(part.text for part in lines[at:last])
        for span in sentence_spans(block, language):
            sentence = block[span.start : span.end]
            if len(sentence) > 12:
                yield line.start + span.start, line.start + span.end, sentence
        at = last


def _continues(line: DocumentLine) -> bool:
    """True if a line goes on with the paragraph before it."""
    text = line.text
    return bool(text.strip()) and not (
        line.code or line.row or text.lstrip().startswith("#") or _LISTED.match(text)
    )


def strip_markdown(text: str) -> str:
    """A statement without the marks of Markdown, on one line."""
    return " ".join(_LINK.sub(r"\1", text).replace("*", "").replace("`", "").split())


def paragraphs_of(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the paragraphs of a text."""
    start = 0
    for gap in _BLANK.finditer(text):
        if gap.start() > start:
            yield start, gap.start()
        start = gap.end()
    if start < len(text):
        yield start, len(text)
