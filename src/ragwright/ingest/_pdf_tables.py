"""Tables of a PDF page: drawn with rules (geometry by pdfplumber), and without (by words)."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import require
from ._extract import markdown_table
from ._pdf_layout import (
    BULLET,
    CAPTION,
    LEADER,
    Box,
    Line,
    PageBlock,
    box_around,
    group_runs,
    groups_apart,
    paragraphs,
)

_NEAR = 2.0


class PageTables:
    """Finds ruled tables; pdfplumber is opened for the first page that has rules.

    Attributes:
        unread: Number of pages with rules that pdfplumber cannot read.
    """

    def __init__(self, pdfium: Any, data: bytes) -> None:
        self._raw = pdfium.raw
        self._data = data
        self.unread = 0

    @cached_property
    def _plumber(self) -> Any:
        return require("pdfplumber", "docs", "tables in PDF files").open(io.BytesIO(self._data))

    def find(
        self, page: Any, text: str, box: Callable[[int], Box], index: int
    ) -> tuple[list[PageBlock], list[int]]:
        """Find the tables of a page; none on pages without rules and on turned pages.

        Args:
            page: A page of PDFium.
            text: Its characters.
            box: Gives the box of a character by its index.
            index: Number of the page, from 0.

        Returns:
            The tables, and for each character of the page the number of the table that holds it,
            or -1.
        """
        tables: list[PageBlock] = []
        owners = np.full(len(text), -1)
        if page.get_rotation() or not self._has_rules(page):
            return tables, owners.tolist()
        try:
            found = self._cells(page, index)
        except MemoryError:
            raise
        except Exception:  # pdfplumber reads some files in another way, or not at all
            self.unread += 1
            return tables, owners.tolist()
        boxes = np.array([box(at) for at in range(len(owners))] if found else [])
        for cells in sorted(found, key=len, reverse=True):
            table, inside = _fill(cells, text, boxes)
            if table is not None and not (inside & (owners >= 0)).any():  # else within another
                owners[inside] = len(tables)
                tables.append(table)
        return tables, owners.tolist()

    def _has_rules(self, page: Any) -> bool:
        """Return True if enough long strokes, boxes or grids are drawn for a table."""
        segments = 0
        for item in page.get_objects(filter=[self._raw.FPDF_PAGEOBJ_PATH], max_depth=5):
            left, bottom, right, top = item.get_bounds()
            if max(right - left, top - bottom) > 20:
                segments += self._raw.FPDFPath_CountSegments(item.raw)
        return segments >= 6  # three strokes, or two boxes

    def _cells(self, page: Any, index: int) -> list[list[Box]]:
        """Return the cell boxes of each table, in PDFium's coordinates."""
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
            if len(ends) >= 2 and max(ends) - min(ends) < _NEAR and abs(ends[0] - inner) > 8:
                sides.add(ends[0])
    if not sides:
        return list(tables)
    return list(page.find_tables({"explicit_vertical_lines": sorted(sides)}))


def _fill(
    cells: Sequence[Box], text: str, boxes: NDArray[np.float64]
) -> tuple[PageBlock | None, NDArray[np.bool_]]:
    """Return the table, None if the rules frame something else, and which characters it holds."""
    edges = (sorted(cell[at] for cell in cells for at in (n, n + 2)) for n in (0, 1))
    near = (group_runs(values, lambda g, value: value - g[0] <= _NEAR) for values in edges)
    xs, ys = ([group[0] for group in groups] for groups in near)
    left, bottom, right, top = outer = (xs[0] - 1, ys[0] - 1, xs[-1] + 1, ys[-1] + 1)
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    drawn = (boxes[:, :2] != boxes[:, 2:]).any(axis=1)
    inside = drawn & (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
    # a space or line end that PDFium inserted has no box; it goes with the character before it
    last = np.maximum.accumulate(np.where(drawn, np.arange(len(text)), 0))
    inside = inside[last]
    parts: dict[int, str] = {}
    for at in np.flatnonzero(inside).tolist():
        cell, _ = _nearest(cells, x[last[at]], y[last[at]])
        parts[cell] = parts.get(cell, "") + (" " if not at or not inside[at - 1] else "") + text[at]
    texts = {cell: " ".join(part.split()) for cell, part in parts.items()}
    under = [
        [_nearest(cells, (a + b) / 2, (low + high) / 2) for a, b in itertools.pairwise(xs)]
        for low, high in zip(ys[-2::-1], ys[:0:-1], strict=True)
    ]
    rows = [[texts.get(n, "") if away <= 0 else "" for n, away in row] for row in under]
    if len(xs) < 3 or len(ys) < 3 or not _is_grid(rows, len(texts)):
        return None, inside
    return PageBlock(markdown_table(rows), box=outer, rows=rows), inside


def _is_grid(rows: list[list[str]], cells: int) -> bool:
    """Return True for rows and columns with text, False for a drawing."""
    filled = [cell for row in rows for cell in row if cell]
    return (
        sum(any(row) for row in rows) >= 2
        and sum(any(row[c] for row in rows) for c in range(len(rows[0]))) >= 2
        and len(set(filled)) >= 3
        and cells >= 0.5 * len(filled)
        and len(filled) >= 0.25 * len(rows) * len(rows[0])
    )


def _nearest(cells: Sequence[Box], x: float, y: float) -> tuple[int, float]:
    """Find the cell under a point, else the nearest one, and how far it is."""
    away = [max(a - x, 0, x - c) + max(b - y, 0, y - d) for a, b, c, d in cells]
    least = min(away)
    return away.index(least), least


_MOST_LINES = 400
_Column: TypeAlias = tuple[float, float]
"""Left and right edge."""


def split_tables(lines: Sequence[Line]) -> list[PageBlock]:
    """Return lines as paragraphs and tables, in their order.

    Lines stand in the order in which they were drawn; cells of a row follow each other there, side
    by side, whereas columns of running text do so only once a column.
    """
    blocks: list[PageBlock] = []
    begun = at = 0
    while at < len(lines):
        end = _table_end(lines, at)
        table = _table(lines[at:end]) if end > at + 1 else None
        if table is None:
            at += 1
        else:
            blocks += [*paragraphs(lines[begun:at]), table]
            begun = at = end
    return blocks + paragraphs(lines[begun:])


def _table_end(lines: Sequence[Line], start: int) -> int:
    """Return the index after the last line that keeps to the columns of the lines so far."""
    first = lines[start]
    size = max(first.size, 1.0)
    columns: list[_Column] = []
    count, low = 0, first.bottom
    for at, line in enumerate(lines[start : start + _MOST_LINES], start):
        spans = [(left, right) for _, left, right in line.cells]
        merged = _columns([*columns, *spans], size)
        count += len(spans)
        if (
            len(merged) < max(len(columns), 1 + (count > 2))
            or abs(line.size - first.size) > 0.07 * size
            or low - line.top > 2.6 * size
            or line.bottom > first.top + 6 * size
            or CAPTION.match(line.text)
        ):
            return at
        columns, low = merged, min(low, line.bottom)
    return min(len(lines), start + _MOST_LINES)


def _columns(spans: Iterable[_Column], size: float) -> list[_Column]:
    """Return the spans of the columns: unions of spans, apart by a part of a letter's height."""
    groups = groups_apart(spans, lambda span: span, 0.35 * size)
    return [(group[0][0], max(right for _, right in group)) for group in groups]


def _table(lines: Sequence[Line]) -> PageBlock | None:
    """Return the lines as a table; None if they are something else."""
    size = median(line.size for line in lines)
    columns = _columns([cell[1:] for line in lines for cell in line.cells], size)
    ordered = sorted(lines, key=lambda line: -line.middle)
    printed = group_runs(ordered, lambda row, line: row[0].middle - line.middle < 0.5 * size)
    rows = _rows(printed, columns)
    beside = sum(sum(len(line.cells) for line in row) > 1 for row in printed)
    enough = beside >= max(2, 0.5 * len(rows))
    if not (enough and _is_table(rows, lines) and _is_aligned(lines, columns, size)):
        return None
    return PageBlock(
        markdown_table(rows),
        size,
        len(lines),
        rows=rows,
        box=box_around((line.left, line.bottom, line.right, line.top) for line in lines),
    )


def _rows(printed: Sequence[Sequence[Line]], columns: Sequence[_Column]) -> list[list[str]]:
    """Return the cells of each row; lines nearer to each other than the others are one row."""
    gaps = [a[0].middle - b[0].middle for a, b in itertools.pairwise(printed)]
    near = 1.12 * min(gaps, default=0.0)
    wrapped = [False, *(gap <= near and max(gaps) > 1.09 * near for gap in gaps)]
    rows: list[list[str]] = []
    for row, goes_on in zip(printed, wrapped, strict=True):
        if not goes_on:
            rows.append([""] * len(columns))
        for text, left, _ in sorted(
            (cell for line in row for cell in line.cells), key=itemgetter(1)
        ):
            column = next(n for n, (_, right) in enumerate(columns) if left <= right)
            rows[-1][column] += f" {text}" if rows[-1][column] else text
    return rows


def _is_aligned(lines: Sequence[Line], columns: Sequence[_Column], size: float) -> bool:
    """Return True if most cells begin, end or are centred under others; justified text is not."""
    shares = []
    spans = [cell[1:] for line in lines for cell in line.cells]
    for first, last in columns[1:]:
        column = np.array([(a, b, (a + b) / 2) for a, b in spans if first <= a <= last])[:60]
        if len(column) > 1:
            alike = np.abs(column[:, None] - column) <= 0.2 * size
            most = int(alike.sum(axis=0).max())  # one alone counts 0
            shares.append(most / len(column) * (most > 1))
    return bool(shares) and sum(shares) / len(shares) > 0.6


def _is_table(rows: Sequence[Sequence[str]], lines: Sequence[Line]) -> bool:
    """Return True for rows and columns, False for lists, contents and columns of text."""
    width = len(rows[0])
    if width < 2 or len(rows) < (2 if width > 2 else 3):
        return False
    cells = [cell for row in rows for cell in row if cell]
    return not (
        len(cells) < 0.4 * width * len(rows)
        or (width == 2 and sum(bool(BULLET.match(row[0] + " ")) for row in rows) > 0.5 * len(rows))
        or (width == 2 and median(len(cell) for cell in cells) > 60)
        or sum(bool(LEADER.search(line.text)) for line in lines) >= 0.3 * len(lines)
    )
