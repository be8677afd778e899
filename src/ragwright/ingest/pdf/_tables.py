"""Tables of a PDF page that are drawn with rules: geometry by pdfplumber, text by PDFium."""

from __future__ import annotations

import ctypes
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core import require
from .._extract import markdown_table
from .._pdf_layout import Block, Box
from ._text import PageText

_NEAR = 2.0
_LONG = 20.0
_THIN = 5.0  # a box about a stroke is wider than the stroke
_GAP = 8.0


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table, and the ranges of page characters that it replaces."""

    block: Block
    ranges: list[tuple[int, int]]


class PageTables:
    """Finds ruled tables; pdfplumber is opened for the first page that has rules.

    Attributes:
        unread: Number of pages with rules that pdfplumber cannot read.
    """

    def __init__(self, pdfium: Any, data: bytes) -> None:
        self._raw = pdfium.raw
        self._data = data
        self._plumber: Any = None
        self.unread = 0

    def close(self) -> None:
        """Close the file."""
        if self._plumber is not None:
            self._plumber.close()

    def find(self, page: Any, content: PageText, index: int) -> list[PageTable]:
        """Find the tables of a page; none on pages without rules and on turned pages."""
        if page.get_rotation() or not self._has_rules(page):
            return []
        try:
            cells = self._cells(page, index)
        except MemoryError:
            raise
        except Exception:  # pdfplumber reads some files in another way, or not at all
            self.unread += 1
            return []
        if not cells:
            return []
        boxes = [content.box(at) for at in range(len(content.text))]
        tables = (_fill(table, content.text, boxes) for table in cells)
        return _apart([table for table in tables if table is not None])

    def _has_rules(self, page: Any) -> bool:
        """Return True if there are enough long thin strokes, boxes or grids for a table."""
        across = down = boxes = 0
        for item in page.get_objects(filter=[self._raw.FPDF_PAGEOBJ_PATH], max_depth=5):
            left, bottom, right, top = item.get_bounds()
            width, height = right - left, top - bottom
            if self._is_shade(item.raw) and min(width, height) > _THIN:
                continue
            across += width > _LONG and height < _THIN
            down += height > _THIN and width < _THIN
            if width > _LONG and height > _THIN:
                boxes += 4 if self._raw.FPDFPath_CountSegments(item.raw) >= 8 else 1
        return (across >= 2 and down >= 1) or boxes >= 4

    def _is_shade(self, path: Any) -> bool:
        """Return True for an area that is filled and has no outline; a grid may be one path."""
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        self._raw.FPDFPath_GetDrawMode(path, fill, stroke)
        return bool(fill) and not stroke and self._raw.FPDFPath_CountSegments(path) < 8

    def _cells(self, page: Any, index: int) -> list[list[Box]]:
        """Return the cell boxes of each table, in PDFium's coordinates."""
        if self._plumber is None:
            plumber = require("pdfplumber", "docs", "tables in PDF files")
            self._plumber = plumber.open(io.BytesIO(self._data))
        there = self._plumber.pages[index]
        try:
            _, _, _, top = there.mediabox
            return [
                [(x0, top - y1, x1, top - y0) for x0, y0, x1, y1 in table.cells]
                for table in _find(there)
            ]
        finally:
            there.close()


def _find(page: Any) -> list[Any]:
    """Find tables by their rules; if row rules extend beyond the columns, sides are closed.

    Many tables in papers have rules between columns and none at the two sides.
    """
    page = page.filter(_draws_rules)
    tables = page.find_tables()
    sides: set[float] = set()
    for table in tables:
        x0, y0, x1, y1 = table.bbox
        rules = [
            edge for edge in page.edges
            if edge["orientation"] == "h" and y0 - 1 <= edge["top"] <= y1 + 1
            and edge["x0"] <= x0 + 1 and edge["x1"] >= x1 - 1
        ]  # fmt: skip
        for side, inner in (("x0", x0), ("x1", x1)):
            ends = [rule[side] for rule in rules]
            if len(ends) >= 2 and max(ends) - min(ends) < _NEAR and abs(ends[0] - inner) > _GAP:
                sides.add(ends[0])
    if not sides:
        return list(tables)
    return list(page.find_tables({"explicit_vertical_lines": sorted(sides)}))


def _draws_rules(item: dict[str, Any]) -> bool:
    """Return False for a shaded area without an outline: it is no cell, or cells lie beside it."""
    area = item["object_type"] in ("rect", "curve") and min(item["width"], item["height"]) > _THIN
    return not (area and item.get("fill") and not item.get("stroke"))


def _fill(cells: Sequence[Box], text: str, boxes: Sequence[Box]) -> PageTable | None:
    """Return the table with its text; None if the rules frame something else."""
    xs, ys = (_edges([c[n] for c in cells] + [c[n + 2] for c in cells]) for n in (0, 1))
    if len(xs) < 3 or len(ys) < 3:
        return None
    outer = (xs[0] - 1, ys[0] - 1, xs[-1] + 1, ys[-1] + 1)
    inside = [_holds(outer, box) for box in boxes]
    parts: dict[int, list[str]] = {}
    ranges: list[tuple[int, int]] = []
    current = -1
    for at, (char, box) in enumerate(zip(text, boxes, strict=True)):
        if inside[at] is None:  # inserted by PDFium: a space or a line end
            if current >= 0 and ranges and ranges[-1][1] == at:
                parts[current].append(char)
                ranges[-1] = (ranges[-1][0], at + 1)
            continue
        if not inside[at]:
            current = -1
            continue
        current = _cell_of(cells, box)
        parts.setdefault(current, []).append(char)
        if ranges and ranges[-1][1] == at:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
            parts[current].insert(-1, " ")
    texts = {k: " ".join("".join(v).split()) for k, v in parts.items()}
    rows = [
        [
            texts.get(_cell_at(cells, (a + b) / 2, (low + high) / 2), "")
            for a, b in itertools.pairwise(xs)
        ]
        for low, high in zip(ys[-2::-1], ys[:0:-1], strict=True)
    ]
    if not ranges or not _is_table(rows, len(texts)):
        return None
    return PageTable(Block(markdown_table(rows), kind="table", box=outer, rows=rows), ranges)


def _is_table(rows: list[list[str]], cells: int) -> bool:
    """Return True for rows and columns with text, False for a drawing."""
    filled = [cell for row in rows for cell in row if cell]
    columns = sum(any(row[c] for row in rows) for c in range(len(rows[0])))
    return (
        sum(any(row) for row in rows) >= 2
        and columns >= 2
        and len(set(filled)) >= 3
        and cells >= 0.5 * len(filled)
        and len(filled) >= 0.25 * len(rows) * len(rows[0])
    )


def _edges(values: Sequence[float]) -> list[float]:
    """Sort edges and merge those closer than two points."""
    edges: list[float] = []
    for value in sorted(values):
        if not edges or value - edges[-1] > _NEAR:
            edges.append(value)
    return edges


def _holds(outer: Box, box: Box) -> bool | None:
    """Return whether a box's middle lies in another; None for characters without a box."""
    left, bottom, right, top = box
    if left == right and bottom == top:
        return None
    x, y = (left + right) / 2, (bottom + top) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


def _cell_at(cells: Sequence[Box], x: float, y: float) -> int:
    under = (at for at, (a, b, c, d) in enumerate(cells) if a <= x <= c and b <= y <= d)
    return next(under, -1)


def _cell_of(cells: Sequence[Box], box: Box) -> int:
    """Find the cell under a character, else the nearest one, so that no character is lost."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    away = [max(a - x, 0, x - c) + max(b - y, 0, y - d) for a, b, c, d in cells]
    return away.index(min(away))  # 0 under a cell


def _apart(tables: list[PageTable]) -> list[PageTable]:
    """Drop tables that share characters with a table of more cells."""
    kept: list[PageTable] = []
    for table in sorted(tables, key=lambda t: -len(t.block.rows) * len(t.block.rows[0])):
        if not any(
            low < other_high and other_low < high
            for other in kept
            for low, high in table.ranges
            for other_low, other_high in other.ranges
        ):
            kept.append(table)
    return kept
