"""Positions of the tokens of a text, and windows cut at their borders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Span
from ..models import Tokenizer, sentence_spans
from ._options import ChunkOptions

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
