"""Lines, paragraphs and order of PDF pages: also running lines, columns, cut tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, combinations, pairwise, repeat
from typing import TypeAlias, TypeVar

from ._extract import markdown_table

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
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
# from the first letter of a word, so that a long word without a hyphen is looked at once
_BROKEN = re.compile(f"(?:(?<![^\\W_])([^\\W_]+))?{_HYPHEN}\\s*([^\\W_]*)")
_HALF = re.compile(f"[^\\W_](?:-|{_HYPHEN})$")
_LINE_END = re.compile(r"(?<![^\W_])([^\W_]+)-\n[ \t]*([^\W_]+)(\S*)[ \t]*\n?")
_AND = frozenset(["and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o", "e"])
"""Words after a hyphen that stands for a part of the next word: ``in- and output``."""
_HEADS = re.compile(r"(?i)(?:half|non|self|well)-(?!less|ness|sense)\w{4}")
"""Words that are written with a hyphen after their first part."""


_NUMBERED = re.compile(r"(\d{1,3})[.)]?\s?(?=[^\W\d_])")


WIDE = 0.75
"""A gap wider than this share of the letters' height parts a line."""
Box: TypeAlias = tuple[float, float, float, float]
"""left, bottom, right, top in points, origin at the page's lower left."""
Cell: TypeAlias = tuple[str, float, float]
"""Text, left and right edge."""


@dataclass(slots=True)
class Line:
    """One printed line: its text, box in points (origin bottom left) and letter height.

    ``cells`` are its parts between wide gaps; none if it is written from right to left.
    """

    text: str
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    bold: bool = False
    cells: tuple[Cell, ...] = ()

    @property
    def size(self) -> float:
        """Height of the letters' boxes, which follows the font size."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """Height of its middle."""
        return (self.bottom + self.top) / 2


@dataclass(slots=True)
class PageBlock:
    """A paragraph, heading or table (of ``rows``) of a page, with its box."""

    text: str
    size: float = 0.0
    lines: int = 1
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
            not self.rows
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
    ordered = sorted(items, key=ends)
    reach = accumulate((ends(item)[1] for item in ordered), max, initial=-math.inf)
    pairs = zip(ordered, reach, strict=False)
    groups = group_runs(pairs, lambda _, pair: ends(pair[0])[0] < pair[1] + gap)
    return [[item for item, _ in group] for group in groups]


def group_runs(items: Iterable[T], goes_on: Callable[[list[T], T], bool]) -> list[list[T]]:
    """Return items in groups; one that does not go on the group before it begins the next."""
    groups: list[list[T]] = []
    for item in items:
        if groups and goes_on(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def paragraphs(lines: Sequence[Line]) -> list[PageBlock]:
    """Join lines to paragraphs; a gap, new column, other size or bullet separates them."""
    steps = Counter(
        round(a.bottom - b.bottom) for a, b in pairwise(lines)
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
        abs(before.size - line.size) > 0.06 * max(before.size, line.size)
        or before.bold != line.bold
        or (number and first and int(number[1]) == int(first[1]) + 1)
        or step < -0.5 * line.size  # up again: the next column
        or step > (1.15 if captions else 1.35) * usual
    )


def _join(group: Sequence[Line], page: Sequence[Line]) -> PageBlock:
    """Join lines to a block; a line runs on if the next one's first word had no room on it."""
    right = max(line.right for line in group)
    left = min(line.left for line in group)
    inner, outer = left, right
    if len(group) < 4:  # too few lines to show how wide the column is
        column = [line for line in page if abs(line.left - left) < 20]
        outer = max((line.right for line in column), default=right)
        column = [line for line in page if abs(line.right - right) < 20]
        inner = min((line.left for line in column), default=left)
    parts = [group[0].text]
    for before, line in pairwise(group):
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
    return PageBlock(
        "".join(parts),
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
    if re.search("[\u0590-\u08ff\ufb1d-\ufefc]", line.text):  # written from right to left
        return before.left - word < left + letter
    return before.right + word > right - letter


def place(blocks: Sequence[PageBlock], at: int, table: PageBlock) -> int:
    """Find the index of a table among blocks that may have been drawn before or after it."""
    while at > 0 and is_over(table, blocks[at - 1]):
        at -= 1
    while at < len(blocks) and is_over(blocks[at], table):
        at += 1
    return at


def is_over(upper: PageBlock, lower: PageBlock) -> bool:
    """Return True if a block stands above another in its column."""
    left, bottom, right, _ = upper.box
    other_left, _, other_right, other_top = lower.box
    return min(right, other_right) > max(left, other_left) and bottom >= other_top - 2


def body_size(pages: Sequence[Sequence[PageBlock]]) -> float:
    """Return the letter height that most characters have."""
    blocks = (b for b in chain.from_iterable(pages) if not b.rows and b.size > 0)
    sizes = Counter(size for b in blocks for size in repeat(round(b.size, 1), len(b.text)))
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def resolve_hyphens(pages: Sequence[Sequence[PageBlock]]) -> None:
    """Join words that a line end split, or a page end: with the hyphen if the document writes one.

    ``exam-|ple`` is joined; ``self-|locking`` keeps its hyphen if ``self-locking`` occurs
    elsewhere, or both halves but not the whole are words of the document. So does a hyphen after a
    single letter, capitals, a digit, or a part such as ``well``.
    """
    for before, after in pairwise(pages):
        if before and after and _is_broken(before[-1].text, after[0].text):
            word, _, rest = after[0].text.partition(" ")
            before[-1].text = f"{before[-1].text[:-1]}{_HYPHEN}{word}"
            after[0].text = rest
    blocks = [*chain.from_iterable(pages)]
    words = {word.casefold() for b in blocks for word in _WORD.findall(_BROKEN.sub(" ", b.text))}
    for block in blocks:
        block.text = _BROKEN.sub(lambda m: _close(m[1] or "", m[2], words), block.text)


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


def box_around(boxes: Iterable[Box]) -> Box:
    """Return the smallest box that holds some others."""
    left, bottom, right, top = zip(*boxes, strict=True)
    return min(left), min(bottom), max(right), max(top)


_MARGIN = 0.12
"""Share of the page's height, at the top and at the bottom, in which running lines stand."""
_NEAR = 4.0
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class PageBlocks:
    """The blocks of a page in the order in which they are drawn, and the page's lower and upper
    edge in points; lines at a slant with their size; values of a form and notes; whether it has
    no text but pictures or drawings.
    """

    blocks: list[PageBlock]
    bottom: float = 0.0
    top: float = 0.0
    slanted: list[tuple[str, float]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    drawn: bool = False


def settle(pages: Sequence[PageBlocks], labels: Sequence[str], body: float) -> list[str]:
    """Put the blocks of all pages right, in place.

    Lines that repeat at the edges of pages, page numbers and watermarks are taken out; columns are
    put into the order of reading if they were drawn in another; a table that goes on on the next
    page has its head again.

    Args:
        pages: All pages.
        labels: Printed number of each page; empty where it is the page's place.
        body: Letter height of the running text.

    Returns:
        The texts that were taken out, each once, without page numbers.
    """
    removed = _remove_running_lines(pages, labels, body)
    slanted = Counter(text for page in pages for text, _ in page.slanted)
    for page in pages:
        for text, size in page.slanted:
            if size > 1.5 * body or slanted[text] > 1:
                removed.append(text)
            else:
                page.blocks.append(PageBlock(text))
        if _is_mixed(page.blocks):
            page.blocks = _cut(page.blocks)
    _repeat_heads(pages)
    return list(dict.fromkeys(removed))


def _remove_running_lines(
    pages: Sequence[PageBlocks], labels: Sequence[str], body: float
) -> list[str]:
    edges = [[block for block in page.blocks if _at_edge(block, page, body)] for page in pages]
    keys = ({key for block in blocks for key in _keys(block)} for blocks in edges)
    seen = Counter(chain.from_iterable(keys))
    least = 2 if len(pages) <= 4 else 3
    removed: list[str] = []
    for number, (page, blocks) in enumerate(zip(pages, edges, strict=True), 1):
        names = {str(number), labels[number - 1].casefold()}
        numbers = {id(block) for block in blocks if _is_page_number(block.text, names)}
        repeated = {id(b): b for b in blocks if max(seen[key] for key in _keys(b)) >= least}
        rest = [b for b in page.blocks if id(b) not in numbers | repeated.keys()]
        if not rest:
            continue  # nothing else is on it
        page.blocks = rest
        texts = [" ".join(b.text.split()) for key, b in repeated.items() if key not in numbers]
        removed += [
            _NUMBER.sub("#", t)
            for t in texts
            if any(map(str.isalpha, re.sub("[ivxlc]{1,7}", "", t)))
        ]
    return removed


def _at_edge(block: PageBlock, page: PageBlocks, body: float) -> bool:
    """Return True for a line or two in the margin at the top or bottom, not larger than text."""
    height = page.top - page.bottom
    _, low, _, high = block.box
    return (
        not block.rows
        and height > 0
        and block.lines <= 2
        and len(block.text) < 200
        and block.size <= 1.25 * max(body, 1)
        and (low > page.top - _MARGIN * height or high < page.bottom + _MARGIN * height)
    )


def _keys(block: PageBlock) -> list[tuple[str, int]]:
    """Return the text without numbers, at its height and at the heights beside it."""
    text = " ".join(_NUMBER.sub("#", block.text.casefold()).split())
    place = round(block.box[1] / _NEAR)
    return [(text, place - 1), (text, place), (text, place + 1)]


def _is_page_number(text: str, names: set[str]) -> bool:
    """Return True for the number of the page, alone or as in `Page 3 of 7`."""
    words = re.findall(r"\w+", text.casefold())
    numbers = [word for word in words if word.isdecimal() or word in names]
    others = len(words) - len(numbers)
    return bool(numbers) and numbers[0] in names and others <= 2 and len(text) < 25


def _is_mixed(blocks: Sequence[PageBlock]) -> bool:
    """Return True if a block was drawn after one that is to its right or below it."""
    placed = [block for block in blocks[:300] if block.box[2] > block.box[0]]
    return any(
        (
            block.box[0] >= later.box[2]
            and block.lines + later.lines > 4
            and _share(block, later, 1) > 0.5
        )
        or (is_over(later, block) and _share(block, later, 0) > 0.5 and later.lines > 1)
        for block, later in combinations(placed, 2)
    )


def _share(block: PageBlock, other: PageBlock, side: int) -> float:
    """Return the share of the narrower block's width (side 0) or height (1) that both have."""
    both = min(block.box[side + 2], other.box[side + 2]) - max(block.box[side], other.box[side])
    return both / max(1.0, min(b.box[side + 2] - b.box[side] for b in (block, other)))


def _cut(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Cut blocks into bands, and bands into columns, and read them in turn."""
    if len(blocks) < 2:
        return list(blocks)
    bands = groups_apart(blocks, lambda b: (-b.box[3], -b.box[1]))
    merged = [[*chain(*group)] for group in group_runs(bands, _shares_columns)]
    columns = [_columns(band) for band in merged]
    if len(columns) == len(columns[0]) == 1:
        return sorted(merged[0], key=lambda b: (-b.box[3], b.box[0]))
    return [block for band in columns for column in band for block in _cut(column)]


def _shares_columns(bands: Sequence[Sequence[PageBlock]], band: Sequence[PageBlock]) -> bool:
    """Return True if a band goes on the columns of those above it, or is cut as they are."""
    above = [*chain(*bands)]
    columned = len(_columns(above)) > 1 or len(_columns(band)) > 1
    return columned and len(_columns([*above, *band])) > 1


def _columns(blocks: Sequence[PageBlock]) -> list[list[PageBlock]]:
    return groups_apart(blocks, lambda b: (b.box[0], b.box[2]), 6.0)


def _repeat_heads(pages: Sequence[PageBlocks]) -> None:
    """Put the head of a table above its rest on the next page, of the same columns."""
    for page, following in pairwise(pages):
        for before, rest in zip(page.blocks[-1:], following.blocks[:1], strict=False):
            width = rest.box[2] - rest.box[0]
            near = abs(before.box[0] - rest.box[0]) < _NEAR
            alike = near and abs(before.box[2] - before.box[0] - width) < 0.2 * width
            same = [len(row) for row in before.rows[:1]] == [len(row) for row in rest.rows[:1]]
            if alike and same and rest.rows[:1] != before.rows[:1]:
                rest.rows.insert(0, before.rows[0])
                rest.text = markdown_table(rest.rows)
