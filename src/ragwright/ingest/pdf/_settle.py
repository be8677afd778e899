"""Blocks of all pages of a PDF file put right: running lines, footnotes, columns, cut tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .._extract import markdown_table
from .._pdf_layout import Block
from .._raised import SUPERSCRIPTS

_MARGIN = 0.12
"""Share of the page's height, at the top and at the bottom, in which running lines stand."""
_NEAR = 4.0
_GUTTER = 6.0
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,7}")
_NOTE = re.compile(r"\s*(\d{1,3}|[*†‡§¶]{1,3})[.)]?\s*(?=\S)")
_MARK = r"(?<=[^\W\d_]|[.,;:!?)\]»”\"’']){}(?!\d)(?=[\s.,;:)\]—–-]|$)"
_SMALL = 0.93
_COMPARED = 300
"""Blocks of a page whose places are compared."""


@dataclass(slots=True)
class PageBlocks:
    """The blocks of a page in the order in which they are drawn, and the page's lower and upper
    edge in points; lines at a slant with their size; values of a form and notes.
    """

    blocks: list[Block]
    bottom: float = 0.0
    top: float = 0.0
    slanted: list[tuple[str, float]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def settle(pages: Sequence[PageBlocks], labels: Sequence[str], body: float) -> list[str]:
    """Put the blocks of all pages right, in place.

    Lines that repeat at the edges of pages, page numbers and watermarks are taken out; columns are
    put into the order of reading where they were drawn in another; footnotes follow the block that
    refers to them; a table that goes on in the next column is joined, and on the next page it has
    its head again.

    Args:
        pages: All pages.
        labels: Printed number of each page; empty where it is the page's place.
        body: Letter height of the running text.

    Returns:
        The texts that were taken out, each once, without page numbers.
    """
    removed = _without_running_lines(pages, labels, body)
    slanted = Counter(text for page in pages for text, _ in page.slanted)
    for page in pages:
        for text, size in page.slanted:
            if size > 1.5 * body or slanted[text] > 1:
                removed.append(text)
            else:
                page.blocks.append(Block(text, kind="slanted"))
        notes = _notes(page, body)
        others = [block for block in page.blocks if not any(block is note for note in notes)]
        page.blocks = _joined_tables(in_columns(others))
        for note in notes:
            _put_note(page.blocks, note)
    _repeat_heads(pages)
    return list(dict.fromkeys(removed))


def _without_running_lines(
    pages: Sequence[PageBlocks], labels: Sequence[str], body: float
) -> list[str]:
    seen: Counter[tuple[str, int]] = Counter()
    edges = [[block for block in page.blocks if _at_edge(block, page, body)] for page in pages]
    for blocks in edges:
        for key in {key for block in blocks for key in _keys(block)}:
            seen[key] += 1
    least = 2 if len(pages) <= 4 else 3
    removed: dict[str, None] = {}
    for number, (page, blocks) in enumerate(zip(pages, edges, strict=True), 1):
        names = {str(number), labels[number - 1].casefold()}
        numbers = [block for block in blocks if _is_page_number(block.text, names)]
        repeated = [b for b in blocks if max(seen[key] for key in _keys(b)) >= least]
        running = [*numbers, *repeated]
        rest = [b for b in page.blocks if not any(b is other for other in running)]
        if not rest:
            continue  # nothing else is on it
        page.blocks = rest
        for block in repeated:
            if any(block is other for other in numbers):
                continue
            text = " ".join(block.text.split())
            if any(character.isalpha() for character in _ROMAN.sub("", text)):
                removed[_NUMBER.sub("#", text)] = None
    return list(removed)


def _at_edge(block: Block, page: PageBlocks, body: float) -> bool:
    """Return True for a line or two in the margin at the top or bottom, not larger than text."""
    height = page.top - page.bottom
    _, low, _, high = block.box
    return (
        block.kind == "text"
        and height > 0
        and block.lines <= 2
        and len(block.text) < 200
        and block.size <= 1.25 * max(body, 1)
        and (low > page.top - _MARGIN * height or high < page.bottom + _MARGIN * height)
    )


def _keys(block: Block) -> list[tuple[str, int]]:
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


def _notes(page: PageBlocks, body: float) -> list[Block]:
    """Return the footnotes: small blocks that begin with a sign, with no other text below them."""
    notes: list[Block] = []
    for block in sorted(page.blocks, key=lambda b: b.box[1]):
        middle = (page.top + page.bottom) / 2
        small = 0 < block.size < _SMALL * body and block.kind == "text" and block.box[3] < middle
        if small and _NOTE.match(block.text):
            notes.append(block)
        elif block.box[3] < middle and not small and not any(_over(block, n) for n in notes):
            break
    kept = [
        note for note in notes if not any(_over(note, b) for b in page.blocks if b not in notes)
    ]
    for note in kept:
        mark = _NOTE.match(note.text)
        assert mark is not None
        note.kind = "note"
        note.text = f"{mark[1]} {note.text[mark.end() :]}"
    return sorted(kept, key=lambda b: -b.box[3])


def _over(upper: Block, lower: Block) -> bool:
    """Return True if a block stands above another in its column."""
    beside = upper.box[2] <= lower.box[0] or lower.box[2] <= upper.box[0]
    return not beside and upper.box[1] >= lower.box[3] - 2


def _put_note(blocks: list[Block], note: Block) -> None:
    """Insert a footnote after the block that has its mark, else at the end."""
    sign = note.text.partition(" ")[0]
    raised = sign.translate(SUPERSCRIPTS)
    mark = re.compile(f"{_MARK.format(re.escape(sign))}|(?<![⁰¹²³⁴-⁹]){raised}(?![⁰¹²³⁴-⁹])")
    for at, block in enumerate(blocks):
        if block.kind == "text" and mark.search(block.text):
            end = at + 1
            while end < len(blocks) and blocks[end].kind == "note":
                end += 1
            blocks.insert(end, note)
            return
    blocks.append(note)


def in_columns(blocks: list[Block]) -> list[Block]:
    """Return blocks in the order of reading; as they are, if they were drawn in that order."""
    return blocks if not _is_mixed(blocks) else _cut(blocks)


def _is_mixed(blocks: Sequence[Block]) -> bool:
    """Return True if a block was drawn after one that is to its right or below it."""
    placed = [block for block in blocks[:_COMPARED] if block.box[2] > block.box[0]]
    for at, block in enumerate(placed):
        for later in placed[at + 1 :]:
            beside = block.box[0] >= later.box[2] and block.lines + later.lines > 4
            level = min(block.box[3], later.box[3]) - max(block.box[1], later.box[1])
            if beside and level > 0.5 * min(_height(block), _height(later)):
                return True
            if _over(later, block) and _share(block, later) > 0.5 and later.lines > 1:
                return True
    return False


def _height(block: Block) -> float:
    return block.box[3] - block.box[1]


def _share(block: Block, other: Block) -> float:
    """Return the share of the narrower block's width that both have."""
    both = min(block.box[2], other.box[2]) - max(block.box[0], other.box[0])
    return both / max(1.0, min(b.box[2] - b.box[0] for b in (block, other)))


def _cut(blocks: Sequence[Block]) -> list[Block]:
    """Cut blocks into bands, and bands into columns, and read them in turn."""
    if len(blocks) < 2:
        return list(blocks)
    bands = _groups(blocks, lambda b: (-b.box[3], -b.box[1]), 0.0)
    merged: list[list[Block]] = []
    for band in bands:
        joined = [*merged[-1], *band] if merged else band
        columned = (merged and len(_columns(merged[-1])) > 1) or len(_columns(band)) > 1
        if merged and columned and len(_columns(joined)) > 1:
            merged[-1] = joined
        else:
            merged.append(band)
    result: list[Block] = []
    for band in merged:
        columns = _columns(band)
        if len(columns) > 1:
            for column in columns:
                result += _cut(column)
        elif len(merged) > 1:
            result += _cut(band)
        else:
            result += sorted(band, key=lambda b: (-b.box[3], b.box[0]))
    return result


def _columns(blocks: Sequence[Block]) -> list[list[Block]]:
    return _groups(blocks, lambda b: (b.box[0], b.box[2]), _GUTTER)


def _groups(
    blocks: Sequence[Block], ends: Callable[[Block], tuple[float, float]], gap: float
) -> list[list[Block]]:
    """Return blocks in groups whose spans do not touch each other."""
    groups: list[list[Block]] = []
    last = 0.0
    for block in sorted(blocks, key=ends):
        low, high = ends(block)
        if groups and low < last + gap:
            groups[-1].append(block)
            last = max(last, high)
        else:
            groups.append([block])
            last = high
    return groups


def _joined_tables(blocks: list[Block]) -> list[Block]:
    """Join a table with its rest at the top of the next column."""
    joined: list[Block] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if before is not None and _goes_on(before, block) and block.box[0] >= before.box[2]:
            before.rows = [*before.rows, *_without_head(block, before)]
            before.text = markdown_table(before.rows)
        else:
            joined.append(block)
    return joined


def _goes_on(before: Block, block: Block) -> bool:
    """Return True if both are tables of the same columns."""
    return (
        bool(before.rows and block.rows)
        and len(before.rows[0]) == len(block.rows[0])
        and abs((before.box[2] - before.box[0]) - (block.box[2] - block.box[0]))
        < 0.2 * _wide(block)
    )


def _wide(block: Block) -> float:
    return block.box[2] - block.box[0]


def _without_head(block: Block, before: Block) -> list[list[str]]:
    return block.rows[1:] if block.rows[0] == before.rows[0] else block.rows


def _repeat_heads(pages: Sequence[PageBlocks]) -> None:
    """Put the head of a table above its rest on the next page."""
    before: Block | None = None
    for page in pages:
        first = page.blocks[0] if page.blocks else None
        if before is not None and first is not None and _is_cut(before, first):
            first.rows = [before.rows[0], *first.rows]
            first.text = markdown_table(first.rows)
        before = page.blocks[-1] if page.blocks else None


def _is_cut(before: Block, rest: Block) -> bool:
    """Return True if a table goes on below the same columns, without its head."""
    level = abs(before.box[0] - rest.box[0]) < _NEAR
    return level and _goes_on(before, rest) and rest.rows[0] != before.rows[0]
