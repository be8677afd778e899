"""The result of reading a file, and the builder that keeps its spans exact."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..core import (
    Document,
    Metadata,
    Page,
    RagwrightError,
    Section,
    Span,
    UnsupportedSourceError,
    count_noun,
)
from ._normalise import clean_metadata, guess_language, iso_date, normalise

_MOST_PADDED = 5_000_000
_MOST_SPANNED = 200_000
IMAGES_LEFT_OUT = (
    "left out: text in pictures is read from image files and scans only",
    "save what it shows as text beside it",
)
"""Why images within documents are not read, and what to do; for :meth:`TextBuilder.miss`."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside another: its name and bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Extract:
    """The result of reading one file: normalised text, with spans that point into it.

    ``faults`` name parts that were damaged although the rest could be read; ``unread`` are the
    numbers of pages that hold pictures or drawings but no text.
    """

    text: str
    title: str = ""
    language: str = ""
    created: str = ""
    modified: str = ""
    media_type: str = "text/plain"
    pages: tuple[Page, ...] = ()
    sections: tuple[Section, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    faults: tuple[RagwrightError, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    unread: tuple[int, ...] = ()

    def document(self, identity: str, source: str, title: str) -> Document:
        """Return the extract as a document."""
        return Document(
            id=identity,
            source=source,
            text=self.text,
            title=title,
            language=self.language,
            created=self.created,
            modified=self.modified,
            media_type=self.media_type,
            pages=self.pages,
            sections=self.sections,
            metadata=self.metadata,
        )


class Block(NamedTuple):
    """A part of a document: a paragraph, heading, item of a list, or table.

    ``level`` is that of a heading, from 1; ``mark`` and ``depth`` those of an item, a further
    paragraph of which has no mark; the first of the ``rows`` of a table is its header.
    """

    text: str = ""
    level: int = 0
    mark: str = ""
    depth: int = 0
    rows: Sequence[Sequence[str]] = ()

    @property
    def line(self) -> str:
        """The block on one line, as it stands in a cell of a table."""
        return " ".join(filter(None, (self.mark, self.text, *itertools.chain(*self.rows))))


class TextBuilder:
    """Collects blocks in reading order; pages and sections keep their exact spans.

    Blocks are normalised only here, and separated by one empty line.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        """Number of characters so far."""
        self._list_end = 0
        self._pages: list[tuple[str, int]] = []
        self._waiting: list[str] = []
        self._missed: Counter[tuple[str, str, str]] = Counter()
        self._headings: list[tuple[str, int, int]] = []

    def add(self, text: str, separator: str = "\n\n") -> Span | None:
        """Append a block; returns None if it is only white space."""
        block = normalise(text).strip("\n").rstrip()
        if not block.strip():
            return None
        lead = separator if self.length else ""
        self.length += len(lead)
        self._pages += [(label, self.length) for label in self._waiting]
        self._waiting.clear()
        self._parts += [lead, block]
        self.length += len(block)
        return Span(self.length - len(block), self.length)

    def heading(self, title: str, level: int, *, mark: bool = True) -> None:
        """Append a heading of a level from 1; ``mark`` writes it as Markdown does."""
        title = " ".join(normalise(title).split())
        level = max(1, level)
        span = self.add(f"{'#' * min(level, 6)} {title}" if mark and title else title)
        if span is not None:
            self._headings.append((title, level, span.start))

    def write(self, blocks: Iterable[Block]) -> None:
        """Append blocks; an item of a list stands directly below the item before it."""
        for block in blocks:
            if block.rows:
                self.add(markdown_table(block.rows))
            elif block.level and block.text:
                self.heading(block.text if block.mark == "-" else block.line, block.level)
            elif block.mark or block.depth:
                tight = self.length and self.length == self._list_end
                span = self.add(f"{'    ' * block.depth}{block.line}", "\n" if tight else "\n\n")
                self._list_end = self.length if span is not None else self._list_end
            else:
                self.add(block.text)

    def markdown(self, text: str, shift: int = 0) -> None:
        """Append Markdown; its headings become sections, ``shift`` levels deeper."""
        span = self.add(text)
        if span is not None:
            for title, level, start in markdown_headings(self._parts[-1]):
                self._headings.append((title, level + shift, span.start + start))

    def page(self, label: str = "") -> None:
        """Start the next page, slide or sheet."""
        self._waiting.append(normalise(label))

    def miss(self, noun: str, why: str, hint: str, count: int = 1) -> None:
        """Count something that is guessed, dropped or unreadable; one warning for each cause.

        Args:
            noun: What it is, for one: ``image``.
            why: What became of it: ``left out``.
            hint: What a person can do about it.
            count: How many more there are.
        """
        self._missed[noun, why, hint] += count

    def extract(
        self,
        media_type: str,
        metadata: Mapping[str, Any],
        *,
        title: str = "",
        language: str = "",
        dates: tuple[Any, Any] = ("", ""),
    ) -> Extract:
        """Return the blocks so far as an extract.

        Args:
            media_type: Type of the file.
            metadata: Cleaned here.
            title: Title that the file states; without one, the first heading.
            language: Language that the file states; without one, a guess.
            dates: When the file was created and modified, as it states them.
        """
        text, sections = self.text(), self.sections()
        created, modified = map(iso_date, dates)
        return Extract(
            text=text,
            title=title or (sections[0].title if sections else ""),
            language=language or guess_language(text),
            created=created,
            modified=modified,
            media_type=media_type,
            pages=self.pages(),
            sections=sections,
            metadata=clean_metadata(metadata),
            faults=tuple(
                UnsupportedSourceError(f"{count_noun(count, noun)}: {why}", hint=hint)
                for (noun, why, hint), count in self._missed.items()
                if count
            ),
        )

    def text(self) -> str:
        """Return all blocks so far."""
        return "".join(self._parts)

    def pages(self) -> tuple[Page, ...]:
        """Return the pages in order; together they cover the text exactly."""
        starts = [*self._pages, *((label, self.length) for label in self._waiting)]
        ends = [*(start for _, start in starts[1:]), self.length][: len(starts)]
        return tuple(
            Page(number, Span(start if number > 1 else 0, end), label)
            for number, ((label, start), end) in enumerate(zip(starts, ends, strict=True), 1)
        )

    def sections(self) -> tuple[Section, ...]:
        """Return the headings' sections, each up to the next of its level or above."""
        return sections_of(self._headings, self.length)


def sections_of(headings: Iterable[tuple[str, int, int]], length: int) -> tuple[Section, ...]:
    """Make sections of (title, level, start), for a text of ``length`` characters."""
    sections: list[Section] = []
    following: dict[int, int] = {}
    for title, level, start in reversed(list(headings)):
        end = min((at for other, at in following.items() if other <= level), default=length)
        following[level] = start
        sections.append(Section(title, level, Span(start, end)))
    return tuple(reversed(sections))


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[\s\S]*?(?:\n[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE)
_HEADING = re.compile(
    r"^ {0,3}(?:(?P<marks>\#{1,6})[ \t](?P<title>[^\n]{1,2000})"
    r"|(?P<line>[^\s\#>|*+=`~<-][^\n]{0,199})\n {0,3}(?P<rule>={2,}|-{2,})[ \t]*)$",
    re.MULTILINE,
)


_INLINE = (
    (r"!?\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"(\*\*|__|`)(.+?)\1", r"\2"),
    (r"(?<!\w)([*_])(\S.*?)\1(?!\w)", r"\2"),
    (r"\\([\\`*_{}\[\]()#+.!-])", r"\1"),
)
"""Links, strong text and code, emphasis and escapes of Markdown, and what is kept of them."""


def markdown_headings(text: str) -> list[tuple[str, int, int]]:
    """Find (title, level, position) of the ``#`` and underlined headings outside code fences."""
    headings: list[tuple[str, int, int]] = []
    bare = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _HEADING.finditer(bare):
        title = re.sub(r"(?:^|[ \t]+)#+$", "", (match["title"] or match["line"]).strip())
        level = len(match["marks"] or "#" * (1 + match["rule"].startswith("-")))
        if title:
            for mark, kept in _INLINE:
                title = re.sub(mark, kept, title)
            headings.append((" ".join(title.split()), level, match.start()))
    return headings


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a Markdown table, padded to the widest row; empty if no cell contains text.

    The first row is the header. Line breaks inside a cell become spaces, bars are escaped.
    """
    cells = [[table_cell(cell) for cell in row] for row in rows]
    width = max((len(row) for row in cells), default=0)
    if not any(cell for row in cells for cell in row):
        return ""
    if len(cells) * width > _MOST_PADDED:  # one absurdly long row must not stretch the others
        width = 0
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join(["-"] * max(width, len(cells[0]))) + " |")
    return "\n".join(lines)


def table_cell(text: str) -> str:
    """Return a cell's text on a single line, with bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


Cell: TypeAlias = tuple[str | None, int, int]
"""Text of a cell, and how many rows and columns it covers; None for the text above it."""


def read_span(value: str | None, most: int = 1000) -> int:
    """Return how many rows or columns a cell covers, as an attribute says; at most ``most``."""
    return max(1, min(int(value), most)) if value and value.strip().isdecimal() else 1


def merge_cells(rows: Iterable[Iterable[Cell]]) -> list[list[str]]:
    """Return the cells of a table; a merged one is repeated in every place that it covers.

    A few bytes can declare cells that cover millions of places. Places made by spans are counted
    per table; past 200,000 a cell is written once, where it begins.
    """
    table: list[list[str]] = []
    covered: dict[int, dict[int, str]] = {}
    spread = 0
    for number, cells in enumerate(rows):
        row: list[str] = []
        above = covered.pop(number, {})
        for text, down, across in cells:
            while len(row) in above:
                row.append(above[len(row)])
            if text is None:
                text = table[-1][len(row)] if table and len(row) < len(table[-1]) else ""
            spread += down * across - 1
            if spread > _MOST_SPANNED:
                spread, down, across = spread - down * across + 1, 1, 1
            places = range(len(row), len(row) + across)
            for below in range(number + 1, number + down):
                covered.setdefault(below, {}).update(dict.fromkeys(places, text))
            row += [above.get(place, text) for place in places]
        row += [above.get(place, "") for place in range(len(row), max(above, default=-1) + 1)]
        table.append(row)
    return table
