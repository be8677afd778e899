"""Blocks of all pages of a PDF file put right: running lines, footnotes, columns, cut tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise

from .._extract import markdown_table
from .._normalise import SUPERSCRIPTS
from .._pdf_layout import Block, group_runs, groups_apart, is_over

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
    edge in points; lines at a slant with their size; values of a form and notes; whether it has
    no text but pictures or drawings.
    """

    blocks: list[Block]
    bottom: float = 0.0
    top: float = 0.0
    slanted: list[tuple[str, float]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    drawn: bool = False


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
    removed = _remove_running_lines(pages, labels, body)
    slanted = Counter(text for page in pages for text, _ in page.slanted)
    for page in pages:
        for text, size in page.slanted:
            if size > 1.5 * body or slanted[text] > 1:
                removed.append(text)
            else:
                page.blocks.append(Block(text, kind="slanted"))
        notes = _notes(page, body)
        others = [block for block in page.blocks if block.kind != "note"]
        page.blocks = _join_tables(_cut(others) if _is_mixed(others) else others)
        for note in notes:
            _put_note(page.blocks, note)
    _repeat_heads(pages)
    return list(dict.fromkeys(removed))


def _remove_running_lines(
    pages: Sequence[PageBlocks], labels: Sequence[str], body: float
) -> list[str]:
    edges = [[block for block in page.blocks if _at_edge(block, page, body)] for page in pages]
    keys = ({key for block in blocks for key in _keys(block)} for blocks in edges)
    seen = Counter(chain.from_iterable(keys))
    least = 2 if len(pages) <= 4 else 3
    removed: dict[str, None] = {}
    for number, (page, blocks) in enumerate(zip(pages, edges, strict=True), 1):
        names = {str(number), labels[number - 1].casefold()}
        numbers = {id(block) for block in blocks if _is_page_number(block.text, names)}
        repeated = {id(b): b for b in blocks if max(seen[key] for key in _keys(b)) >= least}
        rest = [b for b in page.blocks if id(b) not in numbers | repeated.keys()]
        if not rest:
            continue  # nothing else is on it
        page.blocks = rest
        for block in (b for key, b in repeated.items() if key not in numbers):
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
    middle = (page.top + page.bottom) / 2
    notes = [
        block for block in page.blocks
        if block.kind == "text" and 0 < block.size < _SMALL * body and block.box[3] < middle
        and _NOTE.match(block.text)
    ]  # fmt: skip
    others = [block for block in page.blocks if block not in notes]
    notes = [note for note in notes if not any(is_over(note, block) for block in others)]
    for note in notes:
        note.kind = "note"
        note.text = _NOTE.sub(r"\1 ", note.text, count=1)
    return sorted(notes, key=lambda b: -b.box[3])


def _put_note(blocks: list[Block], note: Block) -> None:
    """Insert a footnote after the block that has its mark, else at the end."""
    sign = note.text.partition(" ")[0]
    raised = sign.translate(SUPERSCRIPTS)
    mark = re.compile(f"{_MARK.format(re.escape(sign))}|(?<![⁰¹²³⁴-⁹]){raised}(?![⁰¹²³⁴-⁹])")
    places = (at for at, b in enumerate(blocks) if b.kind == "text" and mark.search(b.text))
    at = next(places, len(blocks) - 1) + 1
    while at < len(blocks) and blocks[at].kind == "note":
        at += 1
    blocks.insert(at, note)


def _is_mixed(blocks: Sequence[Block]) -> bool:
    """Return True if a block was drawn after one that is to its right or below it."""
    placed = [block for block in blocks[:_COMPARED] if block.box[2] > block.box[0]]
    return any(
        (
            block.box[0] >= later.box[2]
            and block.lines + later.lines > 4
            and _share(block, later, 1) > 0.5
        )
        or (is_over(later, block) and _share(block, later, 0) > 0.5 and later.lines > 1)
        for block, later in combinations(placed, 2)
    )


def _share(block: Block, other: Block, side: int) -> float:
    """Return the share of the narrower block's width (side 0) or height (1) that both have."""
    both = min(block.box[side + 2], other.box[side + 2]) - max(block.box[side], other.box[side])
    return both / max(1.0, min(b.box[side + 2] - b.box[side] for b in (block, other)))


def _cut(blocks: Sequence[Block]) -> list[Block]:
    """Cut blocks into bands, and bands into columns, and read them in turn."""
    if len(blocks) < 2:
        return list(blocks)
    bands = groups_apart(blocks, lambda b: (-b.box[3], -b.box[1]))
    merged = [[*chain(*group)] for group in group_runs(bands, _shares_columns)]
    result: list[Block] = []
    for band in merged:
        columns = _columns(band)
        if len(columns) == len(merged) == 1:
            return sorted(band, key=lambda b: (-b.box[3], b.box[0]))
        for column in columns:
            result += _cut(column)
    return result


def _shares_columns(bands: Sequence[Sequence[Block]], band: Sequence[Block]) -> bool:
    """Return True if a band goes on the columns of those above it, or is cut as they are."""
    above = [*chain(*bands)]
    columned = len(_columns(above)) > 1 or len(_columns(band)) > 1
    return columned and len(_columns([*above, *band])) > 1


def _columns(blocks: Sequence[Block]) -> list[list[Block]]:
    return groups_apart(blocks, lambda b: (b.box[0], b.box[2]), _GUTTER)


def _join_tables(blocks: list[Block]) -> list[Block]:
    """Join a table with its rest at the top of the next column."""
    joined: list[Block] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if before is not None and _goes_on(before, block) and block.box[0] >= before.box[2]:
            before.rows += block.rows[block.rows[0] == before.rows[0] :]
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
        < 0.2 * (block.box[2] - block.box[0])
    )


def _repeat_heads(pages: Sequence[PageBlocks]) -> None:
    """Put the head of a table above its rest on the next page."""
    for page, following in pairwise(pages):
        for before, rest in zip(page.blocks[-1:], following.blocks[:1], strict=False):
            level = abs(before.box[0] - rest.box[0]) < _NEAR
            if level and _goes_on(before, rest) and rest.rows[0] != before.rows[0]:
                rest.rows.insert(0, before.rows[0])
                rest.text = markdown_table(rest.rows)
