"""Chunkers: seven ways to cut a document into spans, all at token borders; heads of chunks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Chunk,
    ChunkError,
    Document,
    Head,
    PluginError,
    Span,
    canonical_json,
    make_addition,
)
from ..models import Tokenizer, WordTokenizer, sentence_spans
from ._options import KINDS, ChunkOptions, HeadOptions


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
        faults = {
            "is empty": span.end <= span.start or span.start < 0,
            "does not follow the span before it": (span.start, span.end) <= (last.start, last.end),
            f"leaves the characters {covered}-{span.start} out": span.start > covered,
        }
        if fault := next((text for text, true in faults.items() if true), ""):
            raise ChunkError(
                f"span {number} ({span.start}-{span.end}) {fault}",
                where=document.id,
                hint="a chunker returns sorted spans that cover the text, none empty",
            )
        covered, last = max(covered, span.end), span
    if covered != len(document.text):
        raise ChunkError(
            f"the spans end at {covered}, the text at {len(document.text)}", where=document.id
        )


def find_first_character(text: str, start: int) -> int:
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
    pages = [page for page in document.pages if page.span.length]
    starts = [page.span.start for page in pages]
    sections = sorted(document.sections, key=lambda s: s.span.start)
    begins = [section.span.start for section in sections]
    firsts, ends = np.array(begins, int), np.array([s.span.end for s in sections], int)
    chunks: list[Chunk] = []
    for span, count in zip(spans, tokens, strict=True):
        text = document.text[span.start : span.end]
        anchor = find_first_character(text, span.start)
        place = _below_headings(document.text, begins, anchor, span.end)
        at = bisect_right(starts, anchor)
        further = pages[at : bisect_left(starts, span.end)]
        chunks.append(
            Chunk(
                id=f"{document.id}:{span.start}-{span.end}",
                document_id=document.id,
                ordinal=len(chunks),
                span=span,
                text=text,
                page=pages[at - 1].number if at and anchor < pages[at - 1].span.end else None,
                headings=tuple(
                    sections[n].title for n in np.flatnonzero((firsts <= place) & (place < ends))
                ),
                tokens=count,
                pages=tuple((page.span.start, page.number) for page in further),
            )
        )
    return tuple(chunks)


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


class Chunker(ABC):
    """Cuts a document into chunks; the base class checks the spans.

    ``spec`` is the canonical text of the settings; equal specs cut equally.
    """

    spec: str

    @abstractmethod
    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans, in order of their start, that cover the text; none empty.

        Spans may overlap; leading and trailing white space belongs to a span, so that joining
        them (overlaps once) gives the text back exactly.
        """

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks with page and headings; tokens are not counted.

        Raises:
            ChunkError: The spans break the contract of :meth:`cut`.
        """
        spans = self.cut(document)
        return make_chunks(document, spans, [0] * len(spans))


_RULES = 2
"""Part of every ``spec``; incremented when chunks are cut in another way."""

_PATTERN_SECONDS = 10
"""Processor time that ``chunk.pattern`` may take on one document."""

_TABLE = re.compile(
    r"^[ ]{0,3}\|(?P<header>[^\n]*)\n"  # the header row, the rule below it, the rows
    r"[ ]{0,3}\|[ \t:|-]*-[ \t:|-]*(?:\n[ ]{0,3}\|[^\n]*)*",
    re.MULTILINE,
)


_SIZES = ("size", "overlap", "slack")
_READS = {"page": _SIZES, "entries": ("pattern", *_SIZES), "whole": ()}
"""Unit -> the settings that its cutting depends on; the others depend on the sizes."""


Positions = NDArray[np.int64]


class UnitChunker(Chunker):
    """Cuts by one of the seven units.

    Windows of tokens; paragraphs or sentences, packed up to the size; or parts of the document
    (sections, pages, entries), of which those that are cut become packed paragraphs. A document
    without parts is cut by paragraphs.

    Args:
        options: Settings.
        tokenizer: Counts tokens: the embedder's own, or the keyword analyzer's words.
    """

    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer
        values = ", ".join(
            f"{name}={canonical_json(getattr(options, name))}"
            for name in _READS.get(options.by, _SIZES)
        )
        self.spec = f"{options.by}/{_RULES}({values}) in {tokenizer.name or 'tokens'}"

    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans; see the class."""
        return [chunk.span for chunk in self.chunks(document)]

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks; tokens are counted in the document, in one pass."""
        if not document.text:
            return ()
        tokens = TokenMap(document.text, self.options, self.tokenizer)
        starts = self._starts(document)
        borders = tokens.borders(Span(0, len(document.text)), starts)
        spans = [Span(*ends) for ends in pairwise(borders)]
        divides = self.options.by not in _READS
        if divides or not starts:
            spans = [piece for part in spans for piece in tokens.pack(part)]
        spans = _join_hollow(spans, tokens)
        if divides:
            # a token of prose has four to seven characters
            spans = [*_bounded(spans, document.text, 20 * self.options.size)]
        return make_chunks(document, spans, map(tokens.count, spans))

    def _starts(self, document: Document) -> list[int]:
        """Find the positions at which the document's parts begin.

        A heading whose next line is another heading joins the section that follows.
        """
        if self.options.by in ("page", "whole"):
            pages = [page.span.start for page in document.pages]
            return pages if self.options.by == "page" else [0]
        if self.options.by == "headings":
            starts = sorted({section.span.start for section in document.sections})
            return [
                start
                for last, start in zip([None, *starts], starts, strict=False)
                if last is None or "\n" in document.text[last:start].strip()
            ]
        if self.options.by != "entries":
            return []
        try:
            matches = self.options.entry_pattern().finditer(document.text, timeout=_PATTERN_SECONDS)
            return [match.start() for match in matches]
        except TimeoutError as error:
            raise ChunkError(
                f"chunk.pattern {self.options.pattern!r} took longer than {_PATTERN_SECONDS} s: it "
                "backtracks",
                where=document.id,
                hint="avoid a loop within a loop, such as (a+)+",
            ) from error


class HeadedChunker(Chunker):
    """Cuts as another chunker does, and gives each chunk its head.

    The sentence of ``head.model`` is not written here: it costs a call per chunk.

    Args:
        chunker: Cuts the documents.
        options: Pieces of the head.
        tokenizer: Counts the tokens of heads.
    """

    def __init__(self, chunker: Chunker, options: HeadOptions, tokenizer: Tokenizer) -> None:
        self.chunker = chunker
        self.options = options
        self.tokenizer = tokenizer
        self.spec = f"{chunker.spec}{options.spec}"

    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans; see the chunker."""
        return self.chunker.cut(document)

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks, each with its head."""
        tables = list(_tables(document.text))
        title = document.title.strip() if self.options.title else ""
        chunks = self.chunker.chunks(document)
        return tuple(self._add_head(chunk, title, tables) for chunk in chunks)

    def _add_head(self, chunk: Chunk, title: str, tables: list[_Table]) -> Chunk:
        begins = find_first_character(chunk.text, chunk.span.start)
        at = bisect_left(tables, (begins,)) - 1
        header = tables[at][2] if at >= 0 and begins < tables[at][1] else ""
        head = self._bounded(title, (chunk.headings if self.options.headings else ()), header)
        plain = self.options.title and not chunk.headings and head == Head(title)
        return chunk if plain else replace(chunk, head=head)

    def _bounded(self, title: str, headings: Sequence[str], header: str) -> Head:
        """Make a head within its bound: title first, then the innermost headings."""
        most = self.options.max_tokens
        kept: list[str] = []
        for text in (title, *reversed(headings), header):
            ends = [0, *(span.end for span in self.tokenizer.spans(text))]
            kept.append(text[: ends[most]] if len(ends) > most + 1 else text)
            most -= min(len(ends) - 1, most)
        return Head(kept[0], tuple(filter(None, kept[-2:0:-1])), kept[-1])


def make_chunker(options: ChunkOptions, tokenizer: Tokenizer) -> Chunker:
    """Create the chunker that a project's settings name; its chunks have heads.

    Args:
        options: Settings of the section ``chunk``.
        tokenizer: Counts the tokens of sizes.

    Raises:
        PluginError: ``module:object`` cannot be loaded, or makes no `Chunker`.
    """
    chunker = (
        UnitChunker(options, tokenizer)
        if options.by in KINDS
        else make_addition("chunkers", options.by, Chunker, "chunk.by", options, tokenizer)  # type: ignore[type-abstract]
    )
    if not getattr(chunker, "spec", ""):
        raise PluginError(
            f"{options.by!r} is a chunker without a spec",
            where="chunk.by",
            hint="set spec; test it with ChunkerSuite",
        )
    return HeadedChunker(chunker, options.head, tokenizer)


def _join_hollow(spans: list[Span], tokens: TokenMap) -> list[Span]:
    """Join each span without tokens to the span before it (the first: to the next)."""
    kept: list[Span] = []
    for span in spans:
        if kept and (tokens.count(span) == 0 or tokens.count(kept[0]) == 0):
            kept[-1] = Span(kept[-1].start, max(span.end, kept[-1].end))
        else:
            kept.append(span)
    return kept


def _bounded(spans: Iterable[Span], text: str, most: int) -> Iterator[Span]:
    """Cut spans of too many characters, in front of a word where there is one.

    A text without words, such as a dump of bytes, is one token however long it is. Where the next
    span overlaps more than the last piece, it begins where that piece ends.
    """
    start = end = -1
    for span in spans:
        start = span.start if span.start > start else end
        while span.end - start > most:
            cut = text.rfind(" ", start + most // 2, start + most) + 1 or start + most
            yield Span(start, cut)
            start = cut
        end = span.end
        yield Span(start, end)


_Table = tuple[int, int, str]
"""Start and end of a Markdown table, and its header row without bars."""


def _tables(text: str) -> Iterator[_Table]:
    for match in _TABLE.finditer(text) if "|" in text else ():
        cells = [cell.strip() for cell in match["header"].strip().strip("|").split("|")]
        yield (*match.span(), " | ".join(cell for cell in cells if cell))


_BLOCK = re.compile(r"[\s\S]{262144}[\s\S]*?\n(?=\S)|[\s\S]+")
"""What is passed to a tokenizer at once, to bound memory; it ends after a line.

No known tokenizer joins characters across a line break that a word follows, so the tokens equal
those of the whole text.
"""

_ROW = re.compile(r"[ ]{0,3}\||\{")
"""How a row of a table begins, or a record of JSON Lines, which stays whole if it fits."""

_LONGEST_ROW = 20_000

_LOOK = 40
"""Characters on both sides of a tail that a sentence splitter sees: ``Dr.`` and what follows."""


def _paragraphs(text: str, start: int) -> Iterator[int]:
    """Yield the ends of runs of blank lines; indentation belongs to the next line."""
    return (start + match.end() for match in re.finditer(r"\n(?:[^\S\n]*\n)+", text))


def _sentences(text: str, start: int) -> Iterator[int]:
    """Yield where sentences other than the first begin."""
    return (start + span.start for span in sentence_spans(text)[1:])


class TokenMap:
    """Tokens of a text as arrays: where each starts, and the greatest end of those before it.

    Several tokens may share one character (byte-level tokenizers); such a group is never split.
    Both arrays ascend; they use 16 bytes per token.
    """

    def __init__(self, text: str, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block in _BLOCK.finditer(text):
            first, last = _bounds(tokenizer, block[0])
            starts.append(first + block.start())
            ends.append(last + block.start())
        begins = np.maximum.accumulate(np.concatenate(starts))
        reach = np.maximum.accumulate(np.concatenate(ends))
        real = reach > begins  # a token without characters has no borders
        self.text = text
        self._options = options
        self._starts = begins[real]
        self._reach = np.concatenate([np.zeros(1, np.int64), reach[real]])

    def before(self, position: int) -> int:
        """Count the tokens that start before a character."""
        return int(np.searchsorted(self._starts, position))

    def count(self, span: Span) -> int:
        """Count the tokens that start within a span."""
        return self.before(span.end) - self.before(span.start)

    def borders(self, span: Span, inner: Iterable[int]) -> list[int]:
        """Return the ends of a span, and between them the positions where a cut splits no token."""
        positions = np.unique(np.fromiter(inner, np.int64))
        free = positions[self._reach[np.searchsorted(self._starts, positions)] <= positions]
        return [span.start, *free[(free > span.start) & (free < span.end)].tolist(), span.end]

    def pack(self, span: Span) -> list[Span]:
        """Pack the units of a part of the text greedily; a unit longer than that becomes windows.

        The last units that fit into the overlap, and leave room for a new one, open the next chunk.
        The ends of the part must split no token.
        """
        part = self.text[span.start : span.end]
        size, overlap = self._options.size, self._options.overlap
        inner = [] if self._options.by == "tokens" else [*_paragraphs(part, span.start)]
        if self._options.by == "sentences":
            inner += _sentences(part, span.start)
        units = self.borders(span, inner)
        before = [*map(self.before, units)]
        spans: list[Span] = []
        first = 0
        while True:
            end = max(bisect_right(before, before[first] + size) - 1, first + 1)
            spans += self._windows(Span(units[first], units[end]))
            if end == len(units) - 1:
                return spans
            room = size - (before[end + 1] - before[end])
            first = bisect_left(before, before[end] - min(overlap, room), first + 1, end)

    def _windows(self, span: Span) -> list[Span]:
        """Cut a span into windows.

        A window holds at most ``size`` tokens and, but for the last, at least
        ``size * (1 - slack)``: within the slack it ends at the last paragraph border, else
        sentence border, else line border, else between words, else at exactly ``size``. The
        next one starts ``overlap`` tokens before that end (fewer where it would start inside
        a word). Rows of a table and records of a line are not cut, so that a window may be
        shorter, but for one that alone is longer than a window. A window is longer only if
        more than ``size`` tokens share characters that cannot be split.
        """
        windows: list[Span] = []
        start, done = span.start, 0
        while True:
            first = self.before(start)
            end = next(self._ends(span, first, max(done, first)))
            windows.append(Span(start, end))
            if end == span.end:
                return windows
            done = self.before(end)
            tokens = range(max(done - self._options.overlap, first + 1), done)
            words = (at for at in tokens if not self._continues(at))
            starts = map(self._start, chain(words, tokens))
            start = next((at for at in starts if at is not None), end)

    def _ends(self, span: Span, first: int, done: int) -> Iterator[int]:
        """Yield where a window from token ``first`` on may end, after ``done``; the best first."""
        last = self.before(span.end)
        latest = first + self._options.size
        if latest >= last:
            yield span.end
            return
        row = self._row(latest)
        if row is not None and self.before(row) > done:
            yield row
        earliest = max(latest - int(self._options.size * self._options.slack), done + 1)
        low, high = int(self._reach[earliest]), int(self._starts[latest])
        tail, view = self.text[low:high], max(0, low - _LOOK)
        if self._options.slack:
            for borders in (
                _paragraphs(tail, low),
                _sentences(self.text[view : high + _LOOK], view),
                (low + at + 1 for at, character in enumerate(tail) if character == "\n"),
            ):
                yield from self.borders(Span(low, high + 1), borders)[-2:0:-1]
            tokens = range(latest, earliest - 1, -1)
            words = (self._cut(at) for at in tokens if not self._continues(at))
            yield from (at for at in words if at is not None)
        cuts = map(self._cut, chain(range(latest, done, -1), range(latest + 1, last)))
        yield from (at for at in cuts if at is not None and at > span.start)
        yield span.end

    def _cut(self, token: int) -> int | None:
        """Return the character at which to cut before a token; None if that splits a token.

        White space belongs to the piece in front, an opening bracket to the piece behind.
        """
        start, gap = int(self._starts[token]), int(self._reach[token])
        space = re.search(r"\s(?=\S*\Z)", self.text[gap:start])
        return None if start < gap else gap + space.end() if space else start

    def _continues(self, token: int) -> bool:
        """Return True if a token continues the word of the token before it."""
        start = int(self._starts[token])
        touches = 0 < start == self._reach[token]
        return bool(touches and self.text[start - 1].isalnum() and self.text[start].isalnum())

    def _row(self, token: int) -> int | None:
        """Find the start of the row of a table, or of the record, that a token is in."""
        position = int(self._starts[token])
        start = self.text.rfind("\n", max(0, position - _LONGEST_ROW), position) + 1
        if not start and position > _LONGEST_ROW:
            return None
        return start if _ROW.match(self.text, start) else None

    def _start(self, token: int) -> int | None:
        """Return where a window may start at a token; None within a token or row."""
        row = self._row(token)
        if row is None or self.before(row) < token:
            return self._cut(token) if row is None else None
        return row if self._cut(token) is not None else None


def _bounds(tokenizer: Tokenizer, text: str) -> tuple[Positions, Positions]:
    """Return the starts and ends of tokens.

    White space in front of a token's word is left out of it: many vocabularies contain words with
    the space in front, but a chunk must be able to start at the word.
    """
    if isinstance(tokenizer, WordTokenizer):  # it has arrays already; records of spans cost most
        return tokenizer.bounds(text)
    spans = tokenizer.spans(text)
    words = [len(text[span.start : span.end].lstrip()) or span.length for span in spans]
    ends = np.array([span.end for span in spans], np.int64)
    return ends - np.array(words, np.int64), ends
