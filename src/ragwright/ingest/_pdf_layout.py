"""Lines and paragraphs of a PDF page, from PDFium's characters and their boxes."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_HYPHEN = "\ufffe"  # PDFium's mark for a hyphen at a line's end
_BULLET = re.compile(
    "^\\s*(?:[•◦▪‣●○■□☐\x80-\x9f\uf000-\uf0ff]|[-–*](?=\\s)|\\(?\\d{1,3}[.)](?=\\s))"
)
_LEADER = re.compile(r"(?:\. ?){5,}|_{4,}")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_BROKEN = re.compile(f"([^\\W_]*){_HYPHEN}\\s*([^\\W_]*)")


@dataclass(slots=True)
class Line:
    """One printed line: its text, box in points (origin bottom left) and letter height."""

    text: str
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    top: float = 0.0

    @property
    def size(self) -> float:
        """Height of the letters' boxes, which follows the font size."""
        return self.top - self.bottom


@dataclass(slots=True)
class Block:
    """A paragraph, heading or table of a page."""

    text: str
    size: float = 0.0
    lines: int = 1
    kind: str = "text"

    def is_heading(self, body: float) -> bool:
        """True for one or two short lines set clearly larger than the running text."""
        return (
            self.kind == "text"
            and self.size > 1.15 * body > 0
            and self.lines <= 2
            and 2 < len(self.text) < 150
            and not self.text.rstrip().endswith((".", ",", ";"))
            and any(c.isalpha() for c in self.text)
        )


def split_lines(text: str, start: int, end: int, text_page: Any) -> list[Line]:
    """Lines of ``text[start:end]``, each with the box of its visible characters.

    Positions in ``text`` are PDFium's character indexes.
    """
    lines = []
    at = start
    for piece in text[start:end].splitlines(keepends=True):
        bare = piece.rstrip()
        first = at + len(piece) - len(piece.lstrip())
        last = at + len(bare) - 1
        at += len(piece)
        if last < first:
            continue
        left, bottom, _, top = text_page.get_charbox(first, loose=True)
        _, _, right, _ = text_page.get_charbox(last, loose=True)
        lines.append(Line(bare.lstrip(), left, max(left, right), bottom, top))
    return lines


def paragraphs(lines: Sequence[Line]) -> list[Block]:
    """Lines joined to paragraphs: a gap, a new column, another size or a bullet parts them."""
    blocks: list[Block] = []
    group: list[Line] = []
    pitch = _pitch(lines)
    for line in lines:
        if group and _parts(group[-1], line, pitch):
            blocks.append(_join(group))
            group = []
        group.append(line)
    if group:
        blocks.append(_join(group))
    return blocks


def _pitch(lines: Sequence[Line]) -> float:
    """The commonest distance between the feet of neighbouring lines."""
    steps = Counter(
        round(a.bottom - b.bottom) for a, b in itertools.pairwise(lines)
        if 0 < a.bottom - b.bottom < 4 * max(a.size, 1)
    )  # fmt: skip
    return float(max(steps.items(), key=lambda p: (p[1], -p[0]))[0]) if steps else 0.0


def _parts(before: Line, line: Line, pitch: float) -> bool:
    step = before.bottom - line.bottom
    if abs(before.size - line.size) > 0.12 * max(before.size, line.size):
        return True
    if step < -0.5 * line.size:  # up again: the next column
        return True
    size = max(before.size, line.size, 1.0)
    usual = pitch if 0.8 * size <= pitch <= 2.2 * size else 1.2 * size
    return step > 1.35 * usual


def _join(group: Sequence[Line]) -> Block:
    """One block; lines that fill the width run on, the others keep their line ends."""
    right = max(line.right for line in group)
    left = min(line.left for line in group)
    width = max(right - left, 1.0)
    parts: list[str] = []
    for number, line in enumerate(group):
        text = _BULLET_MARK.sub("• ", line.text)
        if number:
            before = group[number - 1]
            runs_on = (
                before.right > right - 0.15 * width
                and not _BULLET.match(line.text)
                and not _LEADER.search(before.text)
                and not _LEADER.search(line.text)
            )
            parts.append(" " if runs_on else "\n")
        parts.append(text)
    return Block("".join(parts), max(line.size for line in group), len(group))


_BULLET_MARK = re.compile("^[\x80-\x9f\uf000-\uf0ff]\\s*")


def body_size(pages: Sequence[Sequence[Block]]) -> float:
    """Letter height of the running text: the one that most characters have."""
    sizes: Counter[float] = Counter()
    for blocks in pages:
        for block in blocks:
            if block.kind == "text" and block.size > 0:
                sizes[round(block.size, 1)] += len(block.text)
    return max(sizes.items(), key=lambda p: (p[1], -p[0]))[0] if sizes else 0.0


def resolve_hyphens(pages: Sequence[Sequence[Block]]) -> None:
    """Close the words that a line end cut: with the hyphen where the document writes one.

    ``exam-|ple`` is joined; ``self-|locking`` keeps its hyphen where ``self-locking`` stands
    elsewhere, or where both halves but not the whole are words of the document.
    """
    words = {
        word.casefold()
        for blocks in pages
        for block in blocks
        for word in _WORD.findall(_BROKEN.sub(" ", block.text))
    }
    for blocks in pages:
        for block in blocks:
            if _HYPHEN in block.text:
                block.text = _BROKEN.sub(lambda m: _close(m[1], m[2], words), block.text)


def _close(left: str, right: str, words: set[str]) -> str:
    whole, compound = (left + right).casefold(), f"{left}-{right}".casefold()
    if not left or not right:
        return f"{left}-{right}"
    if whole in words:
        return left + right
    halves = len(left) > 2 and len(right) > 2 and {left.casefold(), right.casefold()} <= words
    if compound in words or halves or not right[0].islower() or left[-1].isdigit():
        return f"{left}-{right}"
    return left + right
