"""Chunkers: seven ways to cut a document into spans, all at token borders; and heads of chunks."""

from __future__ import annotations

import inspect
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

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
    load_addition,
)
from ..models import Tokenizer, sentence_spans
from ._options import KINDS, ChunkOptions, HeadOptions
from ._seams import Chunker, find_first_character, make_chunks

_LETTERS_PER_TOKEN = 20
"""A chunk of ``size`` tokens has at most so many characters for each; prose has four to seven."""

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
_READS = {
    "page": _SIZES,
    "entries": ("pattern", *_SIZES),
    "whole": (),
}
"""Unit -> the settings that its cutting depends on; the others depend on the sizes."""


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
        self._divides = options.by not in _READS

    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans; see the class."""
        return self._spans(document, TokenMap.of(document.text, self.tokenizer))

    def count(self, text: str) -> int:
        """Count the tokens of a piece, out of its context."""
        return self.tokenizer.count(text)

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks; tokens are counted in the document, in one pass."""
        tokens = TokenMap.of(document.text, self.tokenizer)
        spans = self._spans(document, tokens)
        return make_chunks(document, spans, map(tokens.count, spans))

    def _spans(self, document: Document, tokens: TokenMap) -> list[Span]:
        if not document.text:
            return []
        spans = _join_hollow(self._pieces(document, tokens), tokens)
        most = _LETTERS_PER_TOKEN * self.options.size
        return list(_bounded(spans, document.text, most)) if self._divides else spans

    def _pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Cut a text that is not empty into spans that cover it."""
        whole = Span(0, len(document.text))
        if self.options.by == "whole":
            return [whole]
        if self.options.by == "tokens":
            return tokens.windows(whole, self.options, document.language)
        starts = self._starts(document)
        if not starts:
            return self._pack(document, tokens, whole)
        spans: list[Span] = []
        for part in map(Span, *_ends(tokens, whole, starts)):
            long = self._divides and tokens.count(part) > self.options.size
            spans += self._pack(document, tokens, part) if long else [part]
        return spans

    def _starts(self, document: Document) -> list[int]:
        """Find the positions at which the document's parts begin.

        A heading whose next line is another heading joins the section that follows.

        Raises:
            ChunkError: The pattern took longer than 10 s on this document.
        """
        if self.options.by == "page":
            return [page.span.start for page in document.pages]
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

    def _pack(self, document: Document, tokens: TokenMap, span: Span) -> list[Span]:
        """Pack the units of a part of the text greedily; a unit longer than that becomes windows.

        The ends of the part must split no token.
        """
        part = document.text[span.start : span.end]
        borders = [*paragraph_borders(part)]
        if self.options.by == "sentences":
            borders += sentence_borders(part, document.language)
        units, ends = _ends(tokens, span, [span.start + at for at in borders])
        units.append(ends[-1])
        before = [*map(tokens.before, units)]
        size, spans = self.options.size, []
        first = done = 0
        last = len(units) - 1
        while done < last:
            end = bisect_right(before, before[first] + size, first, last + 1) - 1
            if end <= first:  # then nothing overlaps: first is done
                unit = Span(units[first], units[first + 1])
                spans += tokens.windows(unit, self.options, document.language)
                first = done = first + 1
                continue
            spans.append(Span(units[first], units[end]))
            done = end
            first = self._overlap_start(before, first, end) if end < last else end
        return spans

    def _overlap_start(self, before: Sequence[int], first: int, end: int) -> int:
        """Find the first unit of the next chunk: some overlap, and room for a new unit."""
        start = end
        room = self.options.size - (before[end + 1] - before[end])
        most = min(self.options.overlap, room)
        while start - 1 > first and before[end] - before[start - 1] <= most:
            start -= 1
        return start


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

    def count(self, text: str) -> int:
        """Count the tokens of a piece."""
        return self.chunker.count(text)

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks, each with its head."""
        chunks = self.chunker.chunks(document)
        tables = list(_tables(document.text)) if self.options.table_header else []
        starts = [span.start for span, _ in tables]
        title = document.title.strip() if self.options.title else ""
        return tuple(self._add_head(chunk, title, tables, starts) for chunk in chunks)

    def _add_head(
        self, chunk: Chunk, title: str, tables: Sequence[tuple[Span, str]], starts: Sequence[int]
    ) -> Chunk:
        table = ""
        if tables:
            begins = find_first_character(chunk.text, chunk.span.start)
            at = bisect_right(starts, begins) - 1
            if at >= 0 and starts[at] < begins < tables[at][0].end:
                table = tables[at][1]
        headings = chunk.headings if self.options.headings else ()
        head = self._bounded(Head(title, headings, table))
        plain = self.options.title and not chunk.headings and head == Head(title)
        return chunk if plain else replace(chunk, head=head)

    def _bounded(self, head: Head) -> Head:
        """The head within its bound: title first, then the innermost headings."""
        most = self.options.max_tokens
        if len(head.title) + sum(map(len, head.headings)) + len(head.table) <= most:
            return head
        kept: list[str] = []
        for text in (head.title, *reversed(head.headings), head.table):
            spans = self.tokenizer.spans(text)
            kept.append(text[: spans[most - 1].end if most else 0] if len(spans) > most else text)
            most -= min(len(spans), most)
        title, *headings, table = kept
        return Head(title, tuple(filter(None, reversed(headings))), table)


def make_chunker(options: ChunkOptions, tokenizer: Tokenizer) -> Chunker:
    """Create the chunker that a project's settings name; its chunks have heads.

    Args:
        options: Settings of the section ``chunk``.
        tokenizer: Counts the tokens of sizes.

    Raises:
        PluginError: ``module:object`` cannot be loaded, or makes no `Chunker`.
    """
    return HeadedChunker(_make_cutter(options, tokenizer), options.head, tokenizer)


def _make_cutter(options: ChunkOptions, tokenizer: Tokenizer) -> Chunker:
    """The chunker without heads."""
    if options.by in KINDS:
        return UnitChunker(options, tokenizer)
    chunker = load_addition("chunkers", options.by, where="chunk.by")
    if callable(chunker) and not isinstance(chunker, Chunker):
        try:
            takes_nothing = not inspect.signature(chunker).parameters
            chunker = chunker() if takes_nothing else chunker(options, tokenizer)
        except Exception as error:
            raise PluginError(
                f"{options.by!r} cannot be made from (options, tokenizer): {error}",
                where="chunk.by",
            ) from error
    if not isinstance(chunker, Chunker) or not getattr(chunker, "spec", ""):
        raise PluginError(
            f"{options.by!r} is not a chunker with a spec",
            where="chunk.by",
            hint="subclass ragwright.ingest.Chunker and set spec; test it with ChunkerSuite",
        )
    return chunker


def _ends(tokens: TokenMap, span: Span, inner: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return where pieces of a span begin and end: at the borders in it that split no token."""
    positions = np.asarray(inner, np.int64)
    inside = positions[(positions > span.start) & (positions < span.end)]
    borders = tokens.free_of(inside).tolist()
    return [span.start, *borders], [*borders, span.end]


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


def _tables(text: str) -> Iterator[tuple[Span, str]]:
    """Span of each Markdown table, and its header row without bars."""
    for match in _TABLE.finditer(text) if "|" in text else ():
        cells = [cell.strip() for cell in match["header"].strip().strip("|").split("|")]
        yield Span(*match.span()), " | ".join(cell for cell in cells if cell)


Positions = NDArray[np.int64]
Bounds = tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]

BLOCK = 1 << 18
"""Characters passed to a tokenizer at once, to bound memory for long texts."""

_ROW = re.compile(r"[ ]{0,3}\||\{")
"""How a row of a table begins, or a record of JSON Lines, which stays whole if it fits."""

_LONGEST_ROW = 20_000

_LINE = re.compile(r"\n(?=\S)")
_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*\n)+")
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")
_SPACE = re.compile(r"(?<=\s)(?=\S)")
_LOOK = 40
"""Characters on both sides of a tail that a sentence splitter sees: ``Dr.`` and what follows."""


def paragraph_borders(text: str) -> Iterator[int]:
    """Find the ends of runs of blank lines, ascending; indentation belongs to the next line."""
    return (match.end() for match in _PARAGRAPH.finditer(text))


def sentence_borders(text: str, language: str) -> Iterator[int]:
    """Find where sentences other than the first begin, ascending."""
    return (span.start for span in sentence_spans(text, language)[1:])


@dataclass(frozen=True, slots=True, eq=False)
class TokenMap:
    """Tokens of a text as arrays: ``starts``, and ``reach`` (greatest end so far), ascending.

    Several tokens may share one character (byte-level tokenizers); such a group is never split.
    """

    text: str
    starts: Positions
    reach: Positions

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> TokenMap:
        """Find the token borders of a text; uses 16 bytes per token."""
        starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        # the word tokenizer has its borders as arrays already; records of them cost most
        bounds: Callable[[str], Bounds] = getattr(tokenizer, "bounds", None) or _bounds(tokenizer)
        for begin, end in _blocks(text):
            start, stop = bounds(text[begin:end])
            starts.append(np.asarray(start, np.int64) + begin)
            ends.append(np.asarray(stop, np.int64) + begin)
        first = np.maximum.accumulate(np.concatenate(starts))
        reach = np.maximum.accumulate(np.concatenate(ends))
        real = reach > first  # a token without characters has no borders
        return cls(text, first[real], reach[real])

    def before(self, position: int) -> int:
        """Count the tokens that start before a character."""
        return int(np.searchsorted(self.starts, position))

    def count(self, span: Span) -> int:
        """Count the tokens that start within a span."""
        return self.before(span.end) - self.before(span.start)

    def free_of(self, positions: Positions) -> Positions:
        """Return the positions at which a cut splits no token, ascending, without duplicates."""
        positions = np.unique(positions)
        index = np.searchsorted(self.starts, positions)
        reach = np.concatenate([np.zeros(1, np.int64), self.reach])[index]
        return positions[reach <= positions]

    def cut(self, index: int) -> int | None:
        """Return the character at which to cut before a token; None if that splits a token.

        White space belongs to the piece in front, an opening bracket to the piece behind.
        """
        start = int(self.starts[index])
        gap = int(self.reach[index - 1]) if index else 0
        if start < gap or (index and start == int(self.starts[index - 1])):
            return None
        space = _LAST_SPACE.search(self.text[gap:start])
        return gap + space.end() if space else start

    def glued(self, index: int) -> bool:
        """Return True if a token continues the word of the token before it."""
        start = int(self.starts[index])
        if index == 0 or start != int(self.reach[index - 1]) or start >= len(self.text):
            return False
        return self.text[start - 1].isalnum() and self.text[start].isalnum()

    def windows(self, span: Span, options: ChunkOptions, language: str) -> list[Span]:
        """Cut a span into windows.

        A window holds at most ``size`` tokens and, but for the last, at least
        ``size * (1 - slack)``: within the slack it ends at the last paragraph border, else
        sentence border, else line border, else between words, else at exactly ``size``. The
        next one starts ``overlap`` tokens before that end (fewer where it would start inside
        a word). Rows of a table and records of a line are not cut, so that a window may be
        shorter, but for one that alone is longer than a window. A window is longer only if
        more than ``size`` tokens share characters that cannot be split.
        """
        first = self.before(span.start)
        windows: list[Span] = []
        start, index, done = span.start, first, first
        while True:
            end, index_end = self._end(span, index, max(done, index), options, language)
            windows.append(Span(start, end))
            if end == span.end:
                return windows
            start, index = self._start(index, index_end, end, options.overlap)
            done = index_end

    def _end(
        self, span: Span, index: int, done: int, options: ChunkOptions, language: str
    ) -> tuple[int, int]:
        """Find the end of the window from token ``index``: a character, and tokens before it."""
        last = self.before(span.end)
        latest = index + options.size
        if latest >= last:
            return span.end, last
        row = self._row(int(self.starts[latest]))
        if row is not None and self.before(row) > done:
            return row, self.before(row)
        earliest = max(latest - int(options.size * options.slack), done + 1)
        position = self._border(earliest, latest, language) if options.slack else None
        if position is not None:
            return position, self.before(position)
        for candidate in chain(range(latest, done, -1), range(latest + 1, last)):
            position = self.cut(candidate)
            if position is not None and position > span.start:
                return position, candidate
        return span.end, last

    def _row(self, position: int) -> int | None:
        """Find the start of the row of a table, or of the record, that a character is in."""
        start = self.text.rfind("\n", max(0, position - _LONGEST_ROW), position) + 1
        if not start and position > _LONGEST_ROW:
            return None
        return start if _ROW.match(self.text, start) else None

    def _border(self, earliest: int, latest: int, language: str) -> int | None:
        """Find the best end of a window with ``earliest`` to ``latest`` tokens before it."""
        low, high = int(self.reach[earliest - 1]), int(self.starts[latest])
        tail = self.text[low:high]
        lines = (at + 1 for at, character in enumerate(tail) if character == "\n")
        view = max(0, low - _LOOK)
        for offset, borders in (
            (low, paragraph_borders(tail)),
            (view, sentence_borders(self.text[view : high + _LOOK], language)),
            (low, lines),
        ):
            positions = self.free_of(np.asarray([offset + border for border in borders], np.int64))
            within = positions[(positions > low) & (positions <= high)]
            if len(within):
                return int(within[-1])
        words = (at for at in range(latest, earliest - 1, -1) if not self.glued(at))
        return next((cut for cut in map(self.cut, words) if cut is not None), None)

    def _start(self, index: int, index_end: int, end: int, overlap: int) -> tuple[int, int]:
        """Find the start of the next window: a character, and tokens before it."""
        fallback: tuple[int, int] | None = None
        for candidate in range(max(index_end - overlap, index + 1), index_end):
            position = self.cut(candidate)
            if position is None:
                continue
            row = self._row(int(self.starts[candidate]))
            if row is not None and self.before(row) < candidate:
                continue
            position = position if row is None else row
            if not self.glued(candidate):
                return position, candidate
            fallback = fallback or (position, candidate)
        return fallback or (end, index_end)


def _bounds(tokenizer: Tokenizer) -> Callable[[str], Bounds]:
    """Return the starts and ends of a tokenizer's spans as arrays.

    White space in front of a token's word is left out of it: many vocabularies contain words with
    the space in front, but a chunk must be able to start at the word.
    """

    def bounds(text: str) -> Bounds:
        spans = tokenizer.spans(text)
        words = [len(text[span.start : span.end].lstrip()) or span.length for span in spans]
        starts = [span.end - length for span, length in zip(spans, words, strict=True)]
        ends = [span.end for span in spans]
        return np.asarray(starts, np.int64), np.asarray(ends, np.int64)

    return bounds


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Return ranges of about `BLOCK` characters that end after a line, else white space.

    No known tokenizer joins characters across a line break that a word follows, so the tokens equal
    those of the whole text.
    """
    borders = [0]
    while len(text) - borders[-1] > 2 * BLOCK:
        least = borders[-1] + BLOCK
        line = _LINE.search(text, least, least + BLOCK)
        match = line or _SPACE.search(text, least)
        if match is None:
            break
        borders.append(match.end())
    if text:
        borders.append(len(text))
    return pairwise(borders)
