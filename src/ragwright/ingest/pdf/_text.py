"""The characters of a PDF page in reading order, corrected for scripts that PDFium gets wrong."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from statistics import median
from typing import Any

from ...core import well_formed
from .._normalise import Raised, join_raised
from .._pdf_layout import WIDE, Box, Line, Word

_SMALL = re.compile("(?<=\\S)[0-9+\u2212\u2013-]+")
"""Characters that may be raised or lowered, after another one."""
_LAM_ALEF = re.compile("(?=[اأإآ]ل)")
_LATIN_ARABIC = re.compile("(?<=[A-Za-z])(?=[\u0621-\u064a])")
_STRAY_MARK = re.compile(" ([\u064b-\u0652])([\u0621-\u064a])")
# A glyph without a letter that starts a line, then a space: a drawn bullet.
_BULLET = re.compile("(?m)^[\x01-\x08\x0e-\x1f\x80-\x9f\uf000-\uf0ff](?=[ \t]+\\S)")
_UNMAPPED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\x9f]")
_WORDS = re.compile(r"\S+")
_FEW = 8
"""A line of so few words may be a cell of a table."""
_BELOW, _ABOVE = 0.22, 0.94
"""Share of the font size that a line takes below and above its baseline."""
_SMALLER, _RAISED, _LOWERED = 0.86, 0.15, 0.05
"""Shares of the font size: of raised letters, and how far they stand from the line."""
_MATH = re.compile(r"CM(?:MI|SY|EX)\d|Math(?!ilda)|MTSY|Euler|STIX.*(?:Size|Var)")
_SIGNS = re.compile("[\U0001d400-\U0001d7ff∑∏∫√∂∇≤≥≈≠≡∞∈∝]")
_PLAIN_WORD = re.compile(r"[a-zA-Z\u00c0-\u024f]{3,}")
_FUNCTION = re.compile(r"\b(?:arg|cos|cosh|det|dim|exp|inf|lim|log|max|min|mod|sin|sinh|sup|tan)\b")
_ITALIC = re.compile(r"italic|oblique|slanted|-it$", re.I)
_BOLD = re.compile(r"bold|black|heavy|demi|bx\d|bd$", re.I)


class PageText:
    """A page's text, where each position is PDFium's character index, with boxes.

    Attributes:
        text: One Python character per PDFium character.
        slanted: Lines that were set at a slant, with their size, as watermarks are.
    """

    def __init__(self, raw: Any, page: Any) -> None:
        self._raw = raw
        self._page = page
        self.slanted: list[tuple[str, float]] = []
        count = page.count_chars()
        text = page.get_text_range() if count else ""
        if len(text) != count:  # control characters left out, or halves of a pair joined
            text = "".join(chr(raw.FPDFText_GetUnicode(page, at)) for at in range(count))
        text = _BULLET.sub("•", text)
        self.text = self._mend_lam_alef(text) if _LAM_ALEF.search(text) else text

    def box(self, at: int, *, loose: bool = False) -> Box:
        """Return a character's left, bottom, right, top in points; ``loose`` goes by the font."""
        left, bottom, right, top = self._page.get_charbox(at, loose=loose)
        return left, bottom, right, top

    def lines(self, start: int, end: int) -> list[Line]:
        """Return the lines of ``text[start:end]`` that are not empty."""
        lines = []
        at = start
        for piece in re.split("(?<=\n)|(?<=\r)(?!\n)", self.text[start:end]):
            bare = piece.rstrip()
            first = at + len(piece) - len(piece.lstrip())
            last = at + len(bare) - 1
            at += len(piece)
            if last >= first:
                text = self._spell(first, last + 1)
                if text and self._is_slanted(first, last):
                    self.slanted.append((text, self._raw.FPDFText_GetFontSize(self._page, first)))
                elif text:
                    lines.append(self._line(text, first, last))
        return lines

    def _is_slanted(self, first: int, last: int) -> bool:
        """Return True if a line is neither level nor upright, by more than six degrees."""
        turns = (self._raw.FPDFText_GetCharAngle(self._page, at) for at in (first, last))
        return all(0.1 < turn % (math.pi / 2) < math.pi / 2 - 0.1 for turn in turns)

    def _line(self, text: str, first: int, last: int) -> Line:
        chosen = (first, (first + last) // 2, last)
        boxes = [self.box(at, loose=True) for at in chosen]
        boxes = [box for box in boxes if box[3] > box[1]] or boxes
        bottom, top = (median(box[side] for box in boxes) for side in (1, 3))
        places = [place for at in chosen if (place := self._set(at)) is not None]
        if len(places) == len(chosen):  # heights of boxes differ between letters in many fonts
            em, base = map(median, zip(*places, strict=True))
            bottom, top = base - _BELOW * em, base + _ABOVE * em
        styles = [self._style(at) for at in (first, last)]
        signs = any(math_sign for _, _, math_sign in styles) or bool(_SIGNS.search(text))
        return Line(
            text,
            left=min(box[0] for box in boxes),
            right=max(box[2] for box in boxes),
            bottom=bottom,
            top=top,
            bold=all(bold for bold, _, _ in styles),
            italic=all(italic for _, italic, _ in styles),
            formula=signs and not _PLAIN_WORD.search(_FUNCTION.sub("", text)),
            words=self._words(first, last, top - bottom),
        )

    def _words(self, first: int, last: int, size: float) -> tuple[Word, ...]:
        """Return the words of a line that may belong to a table, from left to right."""
        words: list[Word] = []
        wide = False
        for match in _WORDS.finditer(self.text, first, last + 1):
            ends = (self.box(match.start(), loose=True), self.box(match.end() - 1, loose=True))
            left, right = min(box[0] for box in ends), max(box[2] for box in ends)
            if words and left < words[-1][1]:
                return ()  # written from right to left
            wide = wide or (bool(words) and left > words[-1][2] + WIDE * size)
            words.append((self._spell(match.start(), match.end()), left, right))
        return tuple(words) if wide or len(words) <= _FEW else ()

    def _set(self, at: int) -> tuple[float, float] | None:
        """Return a character's font size and the height of its baseline; None if it is turned."""
        matrix, x, y = self._raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
        if not self._raw.FPDFText_GetMatrix(self._page, at, matrix):
            return None
        em = self._raw.FPDFText_GetFontSize(self._page, at) * math.hypot(matrix.c, matrix.d)
        if em < 1 or abs(matrix.b) > abs(matrix.a):
            return None
        self._raw.FPDFText_GetCharOrigin(self._page, at, x, y)
        return em, y.value

    def _style(self, at: int) -> tuple[bool, bool, bool]:
        """Return whether a character is bold, is italic, and is of a font for formulas."""
        name = ctypes.create_string_buffer(64)
        self._raw.FPDFText_GetFontInfo(self._page, at, name, 64, ctypes.c_int())
        font = name.value.decode("latin-1")
        return bool(_BOLD.search(font)), bool(_ITALIC.search(font)), bool(_MATH.search(font))

    def _spell(self, start: int, end: int) -> str:
        """Return a line as a reader sees it; empty if its glyphs have no letters."""
        text = self.text[start:end]
        if len(_UNMAPPED.findall(text)) > 0.3 * len(text):
            return ""
        text = well_formed(join_raised(self._heights(start, end)))
        # Where runs of two directions meet, their space is often lost.
        return _LATIN_ARABIC.sub(" ", _STRAY_MARK.sub(r"\2\1", text))

    def _heights(self, start: int, end: int) -> Iterator[Raised]:
        """Yield the pieces of a line, and how each is set: digits and signs may be raised."""
        at = start
        for match in _SMALL.finditer(self.text, start + 1, end):
            usual = self._set(match.start() - 1)
            ends = (match.start(), match.end() - 1)
            if usual is None or not any(self._height(place, usual) for place in ends):
                continue
            yield self.text[at : match.start()], 0
            for at in range(*match.span()):
                yield self.text[at], self._height(at, usual)
            at = match.end()
        yield self.text[at:end], 0

    def _height(self, at: int, usual: tuple[float, float]) -> int:
        """Return 1 if a character is smaller and higher than usual, -1 if lower, else 0."""
        placed = self._set(at)
        if placed is None or placed[0] > _SMALLER * usual[0]:
            return 0
        step = (placed[1] - usual[1]) / usual[0]
        return 1 if step > _RAISED else -1 if step < -_LOWERED else 0

    def _mend_lam_alef(self, text: str) -> str:
        """Put back the order of lam and alef where one glyph stands for both.

        PDFium turns right-to-left runs round letter by letter, also inside a ligature; its
        two letters then share one box.
        """
        letters = list(text)
        for match in _LAM_ALEF.finditer(text):
            at = match.start()
            if self.box(at) == self.box(at + 1):
                letters[at], letters[at + 1] = letters[at + 1], letters[at]
        return "".join(letters)
