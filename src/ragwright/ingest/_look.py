"""One file read by several parsers, page beside page, for people to look at."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core import RagwrightError
from ._apart import extract_bytes, page_pictures
from ._extract import Extract
from ._formats import choose
from ._options import OURS, SourceOptions
from .parsers import check_parser, parser_version

_PICTURED = 40
"""Pages that are drawn."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a parser's text: a paragraph, a heading of a level from 1, or a table's rows."""

    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedBy:
    """What a parser made of a file.

    Attributes:
        parser: Its name, and its version where it has one.
        pages: Blocks of each page; a single page where the parser names none and the others too.
        seconds: Time by the clock, with the start of the process that reads.
        error: Why it could not read the file; None if it did.
        placed: True if the parser names no pages: its blocks stand on the page of the first
            parser's text with which they share most words.
    """

    parser: str
    pages: tuple[tuple[Piece, ...], ...] = ()
    seconds: float = 0.0
    error: RagwrightError | None = None
    placed: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All blocks."""
        return tuple(piece for page in self.pages for piece in page)

    @property
    def words(self) -> int:
        """Number of words, cells included."""
        return sum(len(_words_of(piece)) for piece in self.pieces)

    @property
    def headings(self) -> int:
        """Number of headings."""
        return sum(piece.level > 0 for piece in self.pieces)

    @property
    def tables(self) -> int:
        """Number of tables."""
        return sum(bool(piece.rows) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Look:
    """A file, pictures of its pages as JPEG (of a PDF, at most 40), and what parsers made of it."""

    name: str
    pictures: tuple[bytes, ...]
    parsed: tuple[ParsedBy, ...]


def look_at(name: str, data: bytes, options: SourceOptions, parsers: Sequence[str]) -> Look:
    """Read a file with each of the parsers; one that fails says why, and the others go on.

    Raises:
        ConfigError: There is no parser of a name.
        MissingExtraError: A parser is not installed.
        SourceError: The kind of the file is not known.
    """
    settings = [replace(options, parser=parser) for parser in parsers]
    for chosen in settings:
        check_parser(chosen)
    kind = choose(name, data, options)
    read: list[tuple[str, Extract | RagwrightError, float]] = []
    for parser, chosen in zip(parsers, settings, strict=True):
        began = time.perf_counter()
        extract: Extract | RagwrightError
        try:
            extract = extract_bytes(name, data, chosen)
        except RagwrightError as error:
            extract = error
        used = parser_version(chosen) or OURS
        read.append((used if parser != OURS else OURS, extract, time.perf_counter() - began))
    pictures: tuple[bytes, ...] = ()
    if kind == "pdf":
        try:
            pictures = page_pictures(name, data, options, _PICTURED)
        except RagwrightError:  # the parsers have said what is wrong with it
            pictures = ()
    return Look(name, pictures, _beside(read))


def _beside(read: Sequence[tuple[str, Extract | RagwrightError, float]]) -> tuple[ParsedBy, ...]:
    paged = [
        _pages(extract) for _, extract, _ in read if isinstance(extract, Extract) and extract.pages
    ]
    words = [Counter(w for piece in page for w in _words_of(piece)) for page in (*paged, ())[0]]
    parsed = []
    for parser, extract, seconds in read:
        if isinstance(extract, RagwrightError):
            parsed.append(ParsedBy(parser, (), seconds, extract))
        elif extract.pages or len(words) < 2:
            parsed.append(ParsedBy(parser, _pages(extract), seconds))
        else:
            pieces = [piece for page in _pages(extract) for piece in page]
            parsed.append(ParsedBy(parser, _placed(pieces, words), seconds, placed=True))
    return tuple(parsed)


def _placed(
    pieces: Sequence[Piece], pages: Sequence[Counter[str]]
) -> tuple[tuple[Piece, ...], ...]:
    """Put each block on the page that has most of its words, weighted by how rare they are."""
    spread = Counter(word for page in pages for word in page)
    places: list[list[Piece]] = [[] for _ in pages]
    last = 0
    for piece in pieces:
        words = set(_words_of(piece))
        scores = [sum(1 / spread[word] for word in words if word in page) for page in pages]
        best = max(scores)
        if best > scores[last]:
            last = scores.index(best)
        places[last].append(piece)
    return tuple(map(tuple, places))


def _pages(extract: Extract) -> tuple[tuple[Piece, ...], ...]:
    """Return the blocks of each page; of the whole text where no pages are known."""
    spans = [(page.span.start, page.span.end) for page in extract.pages] or [(0, len(extract.text))]
    levels = {section.span.start: section.level for section in extract.sections}
    pages = []
    for start, end in spans:
        pieces = []
        at = start
        for part in re.split(r"(\n\s*\n)", extract.text[start:end]):
            if part.strip():
                pieces += _pieces_of(part, levels.get(at, 0))
            at += len(part)
        pages.append(tuple(pieces))
    return tuple(pages)


def _pieces_of(text: str, level: int) -> list[Piece]:
    lines = text.strip("\n").split("\n")
    if all(line.lstrip().startswith("|") for line in lines) and len(lines) > 1:
        rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
        cells = [tuple(cell.strip().replace("\\|", "|") for cell in row) for row in rows]
        return [Piece(rows=tuple(r for r in cells if any(c.strip(":- ") for c in r) or not any(r)))]
    marked = re.match(r"#{1,6} ", text)
    if marked and len(lines) == 1:
        return [Piece(text[marked.end() :], level or marked.end() - 1)]
    return [Piece(text.strip("\n"), level)]


def _words_of(piece: Piece) -> list[str]:
    cells = " ".join(cell for row in piece.rows for cell in row)
    return _WORD.findall(f"{piece.text} {cells}".casefold())
