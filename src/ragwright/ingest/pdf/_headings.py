"""Headings of a PDF file: from its outline where it has one, else from size and weight."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .._pdf_layout import Block

_MOST = 10_000
"""Entries of an outline that are read; a made-up one may have no end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the outline: title, level from 1, and number of its page from 0."""

    title: str
    level: int
    page: int


def read_outline(pdfium: Any, document: Any) -> list[Entry]:
    """Return the entries that lead to a page; what cannot be read is left out."""
    entries: list[Entry] = []
    with suppress(pdfium.PdfiumError, RecursionError, ValueError):
        for item in islice(document.get_toc(), _MOST):
            place = item.get_dest()
            page = None if place is None else place.get_index()
            if page is not None:
                entries.append(Entry(item.get_title(), item.level + 1, page))
    return entries


def heading_levels(
    pages: Sequence[Sequence[Block]], outline: Sequence[Entry], body: float
) -> Mapping[int, int]:
    """Return the levels of headings, from 1, by the ``id`` of their blocks.

    An outline decides where at least half of its entries stand on their pages; headings that it
    leaves out take the level of those that look like them. Else the larger and the bold stand
    above.

    Args:
        pages: Blocks of each page.
        outline: Entries of the outline.
        body: Letter height of the running text.
    """
    alike = [block for blocks in pages for block in blocks if block.is_heading(body)]
    listed = _listed(pages, outline)
    if 2 * len(listed) < len(outline) or len(listed) < 2:
        ranks = sorted({block.rank for block in alike}, reverse=True)
        return {id(block): min(ranks.index(block.rank) + 1, 6) for block in alike}
    levels = {id(block): level for block, level in listed}
    votes: dict[tuple[int, bool], Counter[int]] = {}
    for block, level in listed:
        votes.setdefault(block.rank, Counter())[level] += 1
    known = {rank: max(counts, key=lambda n: (counts[n], -n)) for rank, counts in votes.items()}
    for block in alike:
        above = [level for rank, level in known.items() if rank > block.rank]
        level = known.get(block.rank, max(above, default=0) + 1)
        levels.setdefault(id(block), level)
    return {key: min(level, 6) for key, level in levels.items()}


def _listed(pages: Sequence[Sequence[Block]], outline: Sequence[Entry]) -> list[tuple[Block, int]]:
    """Return the blocks whose text is that of an entry for their page, with its level."""
    wanted: dict[tuple[int, str], int] = {}
    for entry in outline:
        wanted.setdefault((entry.page, _letters(entry.title)), entry.level)
    listed: list[tuple[Block, int]] = []
    for number, blocks in enumerate(pages):
        for block in blocks:
            if block.kind == "text" and block.lines <= 4 and len(block.text) < 300:
                level = wanted.pop((number, _letters(block.text)), None)
                if level is not None:
                    listed.append((block, level))
    return listed


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text.casefold()))
