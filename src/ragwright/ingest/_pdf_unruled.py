"""Tables of a PDF page without rules, from the places of their words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ._pdf_layout import BULLET, CAPTION, LEADER, Block, Line
from ._extract import markdown_table

_LIKE = 0.07
"""Letters of a table differ in height by at most this share."""
_FAR = 2.6
"""A row lies at most so many letter heights below the one before."""
_MOST_LINES = 400
_NUMBER = re.compile(r"[\d\s.,:%+\-–−/()°€$£]*\d[\d\s.,:%+\-–−/()°€$£]*")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of words without a wide gap."""

    text: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2


def split_tables(lines: Sequence[Line]) -> list[Line | Block]:
    """Return lines in their order, with those that form a table replaced by it.

    Lines stand in the order in which they were drawn; cells of a row follow each other there, side
    by side, whereas columns of running text do so only once a column.
    """
    items: list[Line | Block] = []
    at = 0
    while at < len(lines):
        end = _table_end(lines, at) if _begins_row(lines, at) else at
        start = _table_start(lines, at, len(items), items) if end > at else at
        block = _table(lines[start:end]) if end > at else None
        if block is None:
            items.append(lines[at])
            at += 1
        else:
            del items[len(items) - (at - start) :]
            items.append(block)
            at = end
    return items


def _pieces(line: Line) -> list[_Piece]:
    return [
        _Piece(text, left, right, line.bottom, line.top)
        for text, left, right in line.pieces or ((line.text, line.left, line.right),)
    ]


def _begins_row(lines: Sequence[Line], at: int) -> bool:
    """Return True if words stand beside each other with a gap, on a line or on two."""
    line = lines[at]
    if len(line.pieces) > 1 and not _is_item(line):
        return True
    if at + 1 == len(lines) or len(line.text) > 80:
        return False
    after = lines[at + 1]
    return _beside(line, after)


def _is_item(line: Line) -> bool:
    """Return True for a sign of a list with its text, and an entry of a contents page."""
    return bool(
        (len(line.pieces) == 2 and BULLET.match(line.pieces[0][0] + " ")) or LEADER.search(line.text)
    )


def _beside(line: Line, after: Line) -> bool:
    size = max(line.size, 1.0)
    return (
        0.5 * size < after.left - line.right < 40 * size
        and abs(after.top - line.top) < 6 * size
        and after.top >= line.bottom
        and after.bottom < line.top
    )


def _alike(line: Line, other: Line) -> bool:
    return abs(line.size - other.size) <= _LIKE * max(line.size, other.size)


def _table_end(lines: Sequence[Line], start: int) -> int:
    """Return the index after the last line that keeps to the columns of the lines so far."""
    first = lines[start]
    pieces = _pieces(first)
    low, end = first.bottom, start + 1
    for at in range(start + 1, min(len(lines), start + _MOST_LINES)):
        line = lines[at]
        size = max(first.size, 1.0)
        far = low - line.top > _FAR * size or line.bottom > first.top + 6 * size
        if far or not _alike(first, line) or CAPTION.match(line.text):
            break
        new = _pieces(line)
        if line.bottom < low - 0.5 * size and _bridges(pieces, new, size):
            break
        pieces += new
        if len(_columns(pieces, size)) < 2 and len(pieces) > 2:
            break
        low, end = min(low, line.bottom), at + 1
    return end


def _table_start(
    lines: Sequence[Line], at: int, most: int, before: Sequence[Line | Block]
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


def _bridges(pieces: Sequence[_Piece], new: Sequence[_Piece], size: float) -> bool:
    """Return True if a piece covers the gap between two columns; only a head may do so."""
    columns = _columns(pieces, size)
    if len(columns) < 2:
        return False
    return any(
        sum(piece.left < right - 1 and piece.right > left + 1 for left, right in columns) > 1
        for piece in new
    )


def _columns(pieces: Sequence[_Piece], size: float) -> list[tuple[float, float]]:
    """Return the spans of the columns: unions of pieces, apart by half a letter's height."""
    columns: list[tuple[float, float]] = []
    for piece in sorted(pieces, key=lambda p: p.left):
        if columns and piece.left < columns[-1][1] + 0.35 * size:
            columns[-1] = (columns[-1][0], max(columns[-1][1], piece.right))
        else:
            columns.append((piece.left, piece.right))
    return columns


def _table(lines: Sequence[Line]) -> Block | None:
    """Return the lines as a table; None if they are something else."""
    pieces = [piece for line in lines for piece in _pieces(line)]
    size = median(line.size for line in lines)
    columns = _columns(pieces, size)
    rows = _rows(pieces, columns, size)
    if not _is_table(rows, lines):
        return None
    return Block(
        markdown_table(rows),
        rows=rows,
        size=size,
        lines=len(lines),
        kind="table",
        box=(
            min(p.left for p in pieces),
            min(p.bottom for p in pieces),
            max(p.right for p in pieces),
            max(p.top for p in pieces),
        ),
    )


def _rows(
    pieces: Sequence[_Piece], columns: Sequence[tuple[float, float]], size: float
) -> list[list[str]]:
    printed: list[list[_Piece]] = []
    for piece in sorted(pieces, key=lambda p: (-p.middle, p.left)):
        if printed and abs(printed[-1][0].middle - piece.middle) < 0.5 * size:
            printed[-1].append(piece)
        else:
            printed.append([piece])
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


def _placed(
    pieces: Sequence[_Piece], columns: Sequence[tuple[float, float]]
) -> list[list[str]]:
    cells: list[list[str]] = [[] for _ in columns]
    for piece in sorted(pieces, key=lambda p: p.left):
        column = next(n for n, (_, right) in enumerate(columns) if piece.left <= right)
        cells[column].append(piece.text)
    return cells


def _runs_over(
    above: Sequence[_Piece],
    below: Sequence[_Piece],
    columns: Sequence[tuple[float, float]],
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


def _is_table(rows: Sequence[Sequence[str]], lines: Sequence[Line]) -> bool:
    """Return True for rows and columns, False for lists, contents and columns of text."""
    width = len(rows[0]) if rows else 0
    if width < 2 or len(rows) < (2 if width > 2 else 3):
        return False
    filled = [sum(bool(cell) for cell in row) for row in rows]
    if sum(count >= 2 for count in filled) < max(2, 0.5 * len(rows)) or sum(filled) < 0.4 * width * len(rows):
        return False
    marks = sum(bool(BULLET.match(row[0] + " ")) for row in rows)
    if width == 2 and marks > 0.5 * len(rows):
        return False
    cells = [cell for row in rows for cell in row if cell]
    if width == 2 and median(len(cell) for cell in cells) > 60:
        return False
    return sum(bool(LEADER.search(line.text)) for line in lines) < 0.3 * len(lines)
