"""Tables of a PDF page: drawn with rules (geometry by pdfplumber), and without (by words)."""

from __future__ import annotations

import ctypes
import io
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
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
    WIDE,
    Box,
    Line,
    PageBlock,
    Word,
    box_around,
    group_runs,
    groups_apart,
)

_NEAR = 2.0
_LONG = 20.0
_THIN = 5.0  # a box about a stroke is wider than the stroke
_GAP = 8.0


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
        plumber = require("pdfplumber", "docs", "tables in PDF files")
        return plumber.open(io.BytesIO(self._data))

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
        """Return True if there are enough long thin strokes, boxes or grids for a table."""
        across = down = boxes = 0
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        for item in page.get_objects(filter=[self._raw.FPDF_PAGEOBJ_PATH], max_depth=5):
            left, bottom, right, top = item.get_bounds()
            width, height = right - left, top - bottom
            self._raw.FPDFPath_GetDrawMode(item.raw, fill, stroke)
            grid = self._raw.FPDFPath_CountSegments(item.raw) >= 8
            if fill and not stroke and not grid and min(width, height) > _THIN:
                continue  # a shade
            across += width > _LONG and height < _THIN
            down += height > _THIN and width < _THIN
            boxes += (width > _LONG and height > _THIN) * (4 if grid else 1)
        return (across >= 2 and down >= 1) or boxes >= 4

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


def _fill(
    cells: Sequence[Box], text: str, boxes: NDArray[np.float64]
) -> tuple[PageBlock | None, NDArray[np.bool_]]:
    """Return the table with its text (None if the rules frame something else), and its characters.

    Args:
        cells: Boxes of the cells.
        text: The page's characters.
        boxes: Their boxes, a row for each.
    """
    xs, ys = (_edges([c[n] for c in cells] + [c[n + 2] for c in cells]) for n in (0, 1))
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
        apart = " " if not at or not inside[at - 1] else ""
        parts[cell] = parts.get(cell, "") + apart + text[at]
    texts = {cell: " ".join(part.split()) for cell, part in parts.items()}
    under = [
        [_nearest(cells, (a + b) / 2, (low + high) / 2) for a, b in itertools.pairwise(xs)]
        for low, high in zip(ys[-2::-1], ys[:0:-1], strict=True)
    ]
    rows = [[texts.get(n, "") if away <= 0 else "" for n, away in row] for row in under]
    if len(xs) < 3 or len(ys) < 3 or not _is_grid(rows, len(texts)):
        return None, inside
    return PageBlock(markdown_table(rows), kind="table", box=outer, rows=rows), inside


def _is_grid(rows: list[list[str]], cells: int) -> bool:
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


def _edges(values: Iterable[float]) -> list[float]:
    """Sort edges and merge those closer than two points."""
    return [
        group[0] for group in group_runs(sorted(values), lambda g, value: value - g[0] <= _NEAR)
    ]


def _nearest(cells: Sequence[Box], x: float, y: float) -> tuple[int, float]:
    """Find the cell under a point, else the nearest one, and how far it is."""
    away = [max(a - x, 0, x - c) + max(b - y, 0, y - d) for a, b, c, d in cells]
    least = min(away)
    return away.index(least), least


_LIKE = 0.07
"""Letters of a table differ in height by at most this share."""
_FAR = 2.6
"""A row lies at most so many letter heights below the one before."""
_MOST_LINES = 400
_FEW_ROWS = 4
_SAMPLE = 60
"""Pieces of a column that are compared with each other."""
_NUMBER = re.compile(r"[\d\s.,:%+\-–−/()°€$£]*\d[\d\s.,:%+\-–−/()°€$£]*")


_Column: TypeAlias = tuple[float, float]
"""Left and right edge."""


def split_tables(lines: Sequence[Line]) -> list[Line | PageBlock]:
    """Return lines in their order, with those that form a table replaced by it.

    Lines stand in the order in which they were drawn; cells of a row follow each other there, side
    by side, whereas columns of running text do so only once a column.
    """
    items: list[Line | PageBlock] = []
    at = 0
    while at < len(lines):
        end = _table_end(lines, at) if _begins_row(lines, at) else at
        start = _table_start(lines, at, len(items), items) if end > at else at
        block = _table(lines[start:end]) if end > at else None
        if block is not None and len(block.rows) <= _FEW_ROWS and _is_paragraph(lines, start, end):
            block = None
        if block is None:
            items.append(lines[at])
            at += 1
        else:
            del items[len(items) - (at - start) :]
            items.append(block)
            at = end
    return items


def _is_paragraph(lines: Sequence[Line], start: int, end: int) -> bool:
    """Return True if the line before or after goes on at the same distance: justified text."""
    step = lines[start].bottom - lines[end - 1].bottom
    pitch = step / max(1, len({round(line.bottom) for line in lines[start:end]}) - 1)
    pairs = [lines[at - 1 : at + 1] for at in (start, end) if 0 < at < len(lines)]
    return any(
        abs(before.bottom - after.bottom - pitch) < 0.12 * pitch
        and _alike(before, after)
        and abs(before.left - after.left) < 0.5 * before.size
        and before.bold == after.bold
        for before, after in pairs
    )


def _pieces(line: Line) -> list[Line]:
    """Return the runs of words of a line without a wide gap."""
    return _split(line, lambda before, word: word[1] > before[2] + WIDE * line.size)


def _split(piece: Line, parts: Callable[[Word, Word], bool]) -> list[Line]:
    """Split a piece between the words that ``parts`` says are apart, if they are known."""
    groups = group_runs(piece.words, lambda words, word: not parts(words[-1], word))
    return [
        replace(
            piece,
            text=" ".join(word[0] for word in words),
            left=words[0][1],
            right=words[-1][2],
            words=tuple(words),
        )
        for words in groups
    ] or [piece]


def _split_at(piece: Line, cuts: Sequence[_Column]) -> list[Line]:
    """Split a piece at gaps between its words that lie in one of the gaps between columns."""
    parts = _split(piece, lambda a, b: any(a[2] <= end and b[1] >= low for low, end in cuts))
    return parts if len(parts) > 1 else [piece]


def _begins_row(lines: Sequence[Line], at: int) -> bool:
    """Return True if words stand beside each other with a gap, on a line or on two.

    Not so the sign of a list with its text, and an entry of a contents page.
    """
    line = lines[at]
    pieces = _pieces(line)
    listed = len(pieces) == 2 and BULLET.match(pieces[0].text + " ")
    if len(pieces) > 1 and not listed and not LEADER.search(line.text):
        return True
    size = max(line.size, 1.0)
    return len(line.text) <= 80 and any(
        0.5 * size < after.left - line.right < 40 * size
        and abs(after.top - line.top) < 6 * size
        and after.top >= line.bottom
        and after.bottom < line.top
        for after in lines[at + 1 : at + 2]
    )


def _alike(line: Line, other: Line) -> bool:
    return abs(line.size - other.size) <= _LIKE * max(line.size, other.size)


def _table_end(lines: Sequence[Line], start: int) -> int:
    """Return the index after the last line that keeps to the columns of the lines so far."""
    first = lines[start]
    columns = _columns(_spans(_pieces(first)), first.size)
    count = len(_pieces(first))
    low, end = first.bottom, start + 1
    for at in range(start + 1, min(len(lines), start + _MOST_LINES)):
        line = lines[at]
        size = max(first.size, 1.0)
        far = low - line.top > _FAR * size or line.bottom > first.top + 6 * size
        if far or not _alike(first, line) or CAPTION.match(line.text):
            break
        cuts = _gaps(columns) if count > 3 else []
        new = [part for piece in _pieces(line) for part in _split_at(piece, cuts)]
        covered = (sum(p.left < b - 1 and p.right > a + 1 for a, b in columns) for p in new)
        if line.bottom < low - 0.5 * size and max(covered) > 1:  # only a head may cover a gap
            break
        columns = _columns([*columns, *_spans(new)], size)
        count += len(new)
        if len(columns) < 2 and count > 2:
            break
        low, end = min(low, line.bottom), at + 1
    return end


def _table_start(
    lines: Sequence[Line], at: int, most: int, before: Sequence[Line | PageBlock]
) -> int:
    """Return the index of the first line: cells of several lines may precede the first pair."""
    first, start = lines[at], at
    while start > 0 and at - start < min(most, 4) and isinstance(before[-1 - (at - start)], Line):
        line = lines[start - 1]
        near = 0 < line.bottom - lines[start].bottom < 1.3 * first.size
        if not near or not _alike(first, line) or CAPTION.match(line.text):
            break
        if line.left != lines[start].left or line.right > first.right + 6 * first.size:
            break
        start -= 1
    return start if at - start < 4 else at


def _spans(pieces: Iterable[Line]) -> list[_Column]:
    return [(piece.left, piece.right) for piece in pieces]


def _columns(spans: Iterable[_Column], size: float) -> list[_Column]:
    """Return the spans of the columns: unions of spans, apart by a part of a letter's height."""
    groups = groups_apart(spans, lambda span: span, 0.35 * size)
    return [(group[0][0], max(right for _, right in group)) for group in groups]


def _gaps(columns: Sequence[_Column]) -> list[_Column]:
    return [(a[1], b[0]) for a, b in itertools.pairwise(columns)]


def _finer(pieces: list[Line], size: float) -> list[Line]:
    """Split pieces where words of at least three stand under each other behind a gap."""
    cuts: list[_Column] = []
    for left, right in _columns(_spans(pieces), size):
        inside = [p for p in pieces if left <= p.left <= right][:_SAMPLE]
        starts = [(b[1], a[2]) for p in inside for a, b in itertools.pairwise(p.words)]
        starts += [(p.left, left) for p in inside if p.left > left + size]
        for start, _ in starts:
            ends = [end for other, end in starts if abs(other - start) < 0.2 * size]
            over = [
                p for p in inside
                if any(word[1] < start - 1 and word[2] > max(ends) + 1 for word in p.words)
                or (not p.words and p.left < start - 1 < p.right)
            ]  # fmt: skip
            if len(ends) > 2 and not over and start - max(ends) > 0.2 * size:
                cuts.append((max(ends), start))
    return [part for piece in pieces for part in _split_at(piece, cuts)] if cuts else pieces


def _table(lines: Sequence[Line]) -> PageBlock | None:
    """Return the lines as a table; None if they are something else."""
    size = median(line.size for line in lines)
    pieces = [piece for line in lines for piece in _pieces(line)]
    known = [p for line in lines if len(_pieces(line)) > 1 for p in _pieces(line)]
    gaps = _gaps(_columns(_spans(known), size))
    pieces = _finer([part for piece in pieces for part in _split_at(piece, gaps)], size)
    columns = _columns(_spans(pieces), size)
    rows = _rows(pieces, columns, size)
    if not _is_table(rows, lines) or not _is_aligned(pieces, columns, size):
        return None
    return PageBlock(
        markdown_table(rows),
        rows=rows,
        size=size,
        lines=len(lines),
        kind="table",
        box=box_around((p.left, p.bottom, p.right, p.top) for p in pieces),
    )


def _rows(pieces: Sequence[Line], columns: Sequence[_Column], size: float) -> list[list[str]]:
    ordered = sorted(pieces, key=lambda p: (-p.middle, p.left))
    printed = group_runs(ordered, lambda row, p: abs(row[0].middle - p.middle) < 0.5 * size)
    gaps = [a[0].middle - b[0].middle for a, b in itertools.pairwise(printed)]
    least = min(gaps, default=0.0)
    uneven = max(gaps, default=0.0) > 1.22 * least
    rows: list[list[list[str]]] = []
    for number, pieces_of_row in enumerate(printed):
        cells = _placed(pieces_of_row, columns)
        wrapped = number > 0 and (
            gaps[number - 1] <= 1.12 * least
            if uneven
            else _runs_over(printed[number - 1], pieces_of_row, columns, size)
        )
        if wrapped:
            for cell, texts in zip(rows[-1], cells, strict=True):
                cell += texts
        else:
            rows.append(cells)
    return [[" ".join(cell) for cell in row] for row in rows]


def _placed(pieces: Sequence[Line], columns: Sequence[_Column]) -> list[list[str]]:
    cells: list[list[str]] = [[] for _ in columns]
    for piece in sorted(pieces, key=lambda p: p.left):
        column = next(n for n, (_, right) in enumerate(columns) if piece.left <= right)
        cells[column].append(piece.text)
    return cells


def _runs_over(
    above: Sequence[Line],
    below: Sequence[Line],
    columns: Sequence[_Column],
    size: float,
) -> bool:
    """Return True if a row only goes on cells that had no room for its first words."""
    if below[0].left < columns[0][1]:
        return False
    for piece in below:
        left, right = next(c for c in columns if piece.left <= c[1])
        over = [p for p in above if left - 1 <= p.left <= right]
        word = len(piece.text.split(maxsplit=1)[0]) * 0.5 * size
        if not over or over[-1].right + word < right or _NUMBER.fullmatch(piece.text):
            return False
    return True


def _is_aligned(pieces: Sequence[Line], columns: Sequence[_Column], size: float) -> bool:
    """Return True if most pieces begin, end or are centred under others; justified text is not."""
    shares = []
    for left, right in columns[1:]:
        column = np.array(
            [(p.left, p.right, (p.left + p.right) / 2) for p in pieces if left <= p.left <= right]
        )[:_SAMPLE]
        if len(column) > 1:
            alike = np.abs(column[:, None] - column) <= 0.2 * size
            most = int(alike.sum(axis=0).max())  # one alone counts 0
            shares.append(most / len(column) * (most > 1))
    return bool(shares) and sum(shares) / len(shares) > 0.6


def _is_table(rows: Sequence[Sequence[str]], lines: Sequence[Line]) -> bool:
    """Return True for rows and columns, False for lists, contents and columns of text."""
    width = len(rows[0]) if rows else 0
    if width < 2 or len(rows) < (2 if width > 2 else 3):
        return False
    filled = [sum(bool(cell) for cell in row) for row in rows]
    cells = [cell for row in rows for cell in row if cell]
    marks = sum(bool(BULLET.match(row[0] + " ")) for row in rows)
    return not (
        sum(count >= 2 for count in filled) < max(2, 0.5 * len(rows))
        or len(cells) < 0.4 * width * len(rows)
        or (width == 2 and marks > 0.5 * len(rows))
        or (width == 2 and median(len(cell) for cell in cells) > 60)
        or sum(bool(LEADER.search(line.text)) for line in lines) >= 0.3 * len(lines)
    )
