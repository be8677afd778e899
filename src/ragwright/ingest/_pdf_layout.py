"""Lines and paragraphs of a PDF page, from PDFium's characters and their boxes."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")
_HYPHEN = "\ufffe"  # PDFium's mark for a hyphen at a line's end
BULLET = re.compile(
    "^\\s*(?:[•◦▪‣●○■□☐\x80-\x9f\uf000-\uf0ff]|[-–*](?=\\s)|\\(?\\d{1,3}[.)](?=\\s))"
)
LEADER = re.compile(r"(?:\. ?){5,}|_{4,}")
CAPTION = re.compile(
    r"(?i)(?:table|tab\.|figure|fig\.|abbildung|abb\.|tabelle|tableau|tabla|tabela|figura|chart|"
    r"exhibit|listing|bild|diagramm?)\s*(?:[A-Z]\.?)?\d+(?:[.\-–]\d+)*\s*[:.|–—-]?\s"
)
"""The beginning of a caption: what it is, and its number."""
_MATH_LETTER = re.compile("[\U0001d400-\U0001d7ff]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufefc]")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_BROKEN = re.compile(f"([^\\W_]*){_HYPHEN}\\s*([^\\W_]*)")
_HALF = re.compile(f"[^\\W_](?:-|{_HYPHEN})$")
_LINE_END = re.compile(r"([^\W_]+)-\n[ \t]*([^\W_]+)(\S*)[ \t]*\n?")
_AND = frozenset(["and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o", "e"])
"""Words after a hyphen that stands for a part of the next word: ``in- and output``."""
_HEADS = re.compile(r"(?i)(?:half|non|self|well)-(?!less|ness|sense)\w{4}")
"""Words that are written with a hyphen after their first part."""


_TELLING = 4
_RESIZED = 0.06
"""Letters whose height differs by more are of another size."""
_NUMBERED = re.compile(r"(\d{1,3})[.)]?\s?(?=[^\W\d_])")


WIDE = 0.75
"""A gap wider than this share of the letters' height parts a line."""
Box: TypeAlias = tuple[float, float, float, float]
"""left, bottom, right, top in points, origin at the page's lower left."""
Word: TypeAlias = tuple[str, float, float]
"""Text, left and right edge."""


@dataclass(slots=True)
class Line:
    """One printed line: its text, box in points (origin bottom left) and letter height.

    ``words`` are those of a line with wide gaps, or with few words; else empty.
    """

    text: str
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    bold: bool = False
    italic: bool = False
    formula: bool = False
    words: tuple[Word, ...] = ()

    @property
    def size(self) -> float:
        """Height of the letters' boxes, which follows the font size."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """Height of its middle."""
        return (self.bottom + self.top) / 2


@dataclass(slots=True)
class Block:
    """A paragraph, heading or table of a page, with its box (left, bottom, right, top)."""

    text: str
    size: float = 0.0
    lines: int = 1
    kind: str = "text"
    bold: bool = False
    box: Box = (0.0, 0.0, 0.0, 0.0)
    rows: list[list[str]] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, bool]:
        """Sort key of a heading's prominence: larger first, then bold."""
        return round(self.size), self.bold

    def is_heading(self, body: float) -> bool:
        """True for one or two short lines set clearly larger than the running text, or bold."""
        return (
            self.kind == "text"
            and (self.size > 1.15 * body > 0 or (self.bold and self.size > 0.95 * body))
            and self.lines <= (3 if self.size > 1.3 * body else 2)
            and 2 < len(self.text) < 150
            and not self.text.rstrip().endswith((".", ",", ";", ":"))
            and not BULLET.match(self.text)
            and not CAPTION.match(self.text)
            and sum(c.isalpha() for c in self.text) > 0.5 * len("".join(self.text.split()))
        )


def groups_apart(
    items: Iterable[T], ends: Callable[[T], tuple[float, float]], gap: float = 0.0
) -> list[list[T]]:
    """Return items in groups, in the order of their lower ends, that are ``gap`` apart."""
    groups: list[list[T]] = []
    last = 0.0
    for item in sorted(items, key=ends):
        low, high = ends(item)
        if groups and low < last + gap:
            groups[-1].append(item)
            last = max(last, high)
        else:
            groups.append([item])
            last = high
    return groups


def group_runs(items: Iterable[T], goes_on: Callable[[list[T], T], bool]) -> list[list[T]]:
    """Return items in groups; one that does not go on the group before it begins the next."""
    groups: list[list[T]] = []
    for item in items:
        if groups and goes_on(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def paragraphs(lines: Sequence[Line]) -> list[Block]:
    """Join lines to paragraphs; a gap, new column, other size or bullet separates them."""
    steps = Counter(
        round(a.bottom - b.bottom) for a, b in itertools.pairwise(lines)
        if 0 < a.bottom - b.bottom < 4 * max(a.size, 1)
    )  # fmt: skip
    pitch = max(steps, key=lambda step: (steps[step], -step), default=0)
    groups = group_runs(lines, lambda group, line: _goes_on(group, line, pitch))
    return [_join(group, lines) for group in groups]


def _goes_on(group: Sequence[Line], line: Line, pitch: float) -> bool:
    """Return True if a line belongs to a paragraph; ``pitch`` is the usual step between lines."""
    before = group[-1]
    step = before.bottom - line.bottom
    if _is_broken(before.text, line.text):
        return True
    captions = CAPTION.match(line.text) or CAPTION.match(group[0].text)
    number, first = _NUMBERED.match(line.text), _NUMBERED.match(group[0].text)
    size = max(before.size, line.size, 1.0)
    usual = pitch if 0.8 * size <= pitch <= 2.2 * size else 1.2 * size
    return not (
        abs(before.size - line.size) > _RESIZED * max(before.size, line.size)
        or before.bold != line.bold
        or before.formula != line.formula
        or (captions and before.italic != line.italic)
        or (number and first and int(number[1]) == int(first[1]) + 1)
        or step < -0.5 * line.size  # up again: the next column
        or step > (1.15 if captions else 1.35) * usual
    )


def _join(group: Sequence[Line], page: Sequence[Line]) -> Block:
    """Join lines to a block; a line runs on if the next one's first word had no room on it."""
    right = max(line.right for line in group)
    left = min(line.left for line in group)
    inner, outer = left, right
    if len(group) < _TELLING:  # too few lines to show how wide the column is
        column = [line for line in page if abs(line.left - left) < 20]
        outer = max((line.right for line in column), default=right)
        column = [line for line in page if abs(line.right - right) < 20]
        inner = min((line.left for line in column), default=left)
    parts = [group[0].text]
    for before, line in itertools.pairwise(group):
        if _is_broken(before.text, line.text):
            parts[-1] = before.text[:-1] + _HYPHEN
            parts.append(line.text)
            continue
        gap = (line.left - before.right) / max(line.size, 1.0)
        level = abs(before.bottom - line.bottom) < 0.3 * line.size
        if level and -0.3 < gap < WIDE:  # PDFium parts a line after raised text
            parts.append(" " if gap > 0.12 else "")
        else:
            parts.append(" " if _runs_on(before, line, inner, outer) else "\n")
        parts.append(line.text)
    formula = all(line.formula for line in group)
    return Block(
        "".join(parts),
        kind="formula" if formula else "text",
        size=max(line.size for line in group),
        lines=len(group),
        bold=all(line.bold for line in group),
        box=(left, group[-1].bottom, right, max(line.top for line in group)),
    )


def _runs_on(before: Line, line: Line, left: float, right: float) -> bool:
    if BULLET.match(line.text) or LEADER.search(before.text) or LEADER.search(line.text):
        return False
    letter = (line.right - line.left) / max(len(line.text), 1)
    word = (len(line.text.split(maxsplit=1)[0]) + 1) * letter
    if _RIGHT_TO_LEFT.search(line.text):
        return before.left - word < left + letter
    return before.right + word > right - letter


def place(blocks: Sequence[Block], at: int, table: Block) -> int:
    """Find the index of a table among blocks that may have been drawn before or after it."""
    while at > 0 and is_over(table, blocks[at - 1]):
        at -= 1
    while at < len(blocks) and is_over(blocks[at], table):
        at += 1
    return at


def is_over(upper: Block, lower: Block) -> bool:
    """Return True if a block stands above another in its column."""
    left, bottom, right, _ = upper.box
    other_left, _, other_right, other_top = lower.box
    return min(right, other_right) > max(left, other_left) and bottom >= other_top - 2


def body_size(pages: Sequence[Sequence[Block]]) -> float:
    """Return the letter height that most characters have."""
    sizes: Counter[float] = Counter()
    for block in itertools.chain.from_iterable(pages):
        if block.kind == "text" and block.size > 0:
            sizes[round(block.size, 1)] += len(block.text)
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def resolve_hyphens(pages: Sequence[Sequence[Block]]) -> None:
    """Join words that a line end split, or a page end: with the hyphen if the document writes one.

    ``exam-|ple`` is joined; ``self-|locking`` keeps its hyphen if ``self-locking`` occurs
    elsewhere, or both halves but not the whole are words of the document. So does a hyphen after a
    single letter, capitals, a digit, or a part such as ``well``.
    """
    for before, after in itertools.pairwise(pages):
        if before and after and _is_broken(before[-1].text, after[0].text):
            word, _, rest = after[0].text.partition(" ")
            before[-1].text = f"{before[-1].text[:-1]}{_HYPHEN}{word}"
            after[0].text = rest
    blocks = [*itertools.chain.from_iterable(pages)]
    words = {word.casefold() for b in blocks for word in _WORD.findall(_BROKEN.sub(" ", b.text))}
    for block in blocks:
        block.text = _BROKEN.sub(lambda m: _close(m[1], m[2], words), block.text)


def _is_broken(before: str, after: str) -> bool:
    """Return True if a word, or a range of numbers, goes on on the next line."""
    range_of_numbers = before[-2:-1].isdigit() and after[:1].isdigit()
    return bool(_HALF.search(before)) and (after[:1].islower() or range_of_numbers)


def join_broken_words(text: str) -> str:
    """Join the words of a text that its line ends split, each on the line on which it begins."""
    if not _LINE_END.search(text):
        return text
    words = {word.casefold() for word in _WORD.findall(_LINE_END.sub(" ", text))}
    return _LINE_END.sub(lambda m: f"{_close(m[1], m[2], words)}{m[3]}\n", text)


def _close(left: str, right: str, words: set[str]) -> str:
    whole, compound = (left + right).casefold(), f"{left}-{right}".casefold()
    if not left or not right:
        return f"{left}-{right}"
    if right in _AND:
        return f"{left}- {right}"
    if whole in words:
        return left + right
    halves = len(left) > 2 and len(right) > 2 and {left.casefold(), right.casefold()} <= words
    head = _HEADS.match(compound)
    sign = len(left) == 1 or not left.isalpha() or (left.isupper() and not right.isupper())
    if compound in words or halves or head or sign or not right[0].islower():
        return f"{left}-{right}"
    return left + right


def join_formulas(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with the parts of a formula in one, which says what it is: ``[formula] E = m``.

    Its parts stand at several heights: bounds of a sum, numerator and denominator, exponents.
    """
    groups = group_runs(blocks, _is_formula_part)
    for first, *others in groups:
        if first.kind == "formula":
            text = " ".join([first.text, *(part.text for part in others)])
            letters = _MATH_LETTER.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
            first.text = f"[formula] {' '.join(letters.split())}"
    return [group[0] for group in groups]


def _is_formula_part(group: Sequence[Block], block: Block) -> bool:
    part = block.kind == "formula" or (len(block.text) < 5 and block.kind == "text")
    left, bottom, right, top = box_around(item.box for item in group)
    size = max(group[0].size, block.size)
    return (
        group[0].kind == "formula"
        and part
        and bottom - size < block.box[3]
        and block.box[1] < top + size
        and left - 4 * size < block.box[2]
        and block.box[0] < right + 4 * size
    )


def box_around(boxes: Iterable[Box]) -> Box:
    """Return the smallest box that holds some others."""
    left, bottom, right, top = zip(*boxes, strict=True)
    return min(left), min(bottom), max(right), max(top)
