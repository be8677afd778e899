"""Reading order of recognised lines: columns one after the other, rows from left to right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from .._pdf_layout import Line
from ._engine import Sight

_PROSE = 20
"""Characters that half of a column's lines have at least; less is a column of a table."""
_COLUMN = 3
"""Lines of a column at least."""
_EDGE = 0.4
"""Heights of a line by which a box may be wider than its text, at either end."""
_GUTTER = 0.3
"""Least gap between columns without these edges, in heights of a line."""
_SAME = 0.5
"""Share of the lower height by which two boxes of one row overlap."""
_USUAL = 0.25
"""Difference from the usual height within which a line has that height."""


def in_reading_order(sights: Sequence[Sight], height: float, points: float) -> list[Line]:
    """Sort the lines of a page as they are read, in points from the bottom left.

    The height of a box depends on the letters in its line, so lines of about the usual height get
    that height: paragraphs and headings are found by it.

    Args:
        sights: What was recognised.
        height: Height of the page in pixels.
        points: Points per pixel.
    """
    if not sights:
        return []
    usual = median(s.bottom - s.top for s in sights)
    lines = []
    for row in _rows_in_order(list(sights), usual):
        top, bottom = min(s.top for s in row), max(s.bottom for s in row)
        size = median(s.bottom - s.top for s in row)
        if abs(size - usual) <= _USUAL * usual:
            size = usual
        middle = (top + bottom) / 2
        lines.append(
            Line(
                " ".join(s.text for s in row),
                left=row[0].left * points,
                right=row[-1].right * points,
                bottom=(height - middle - size / 2) * points,
                top=(height - middle + size / 2) * points,
            )
        )
    return lines


def _rows_in_order(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Sort a part of the page: split into columns, else at its widest gap, else by row."""
    if len(sights) > 1:
        parts = _columns(sights, usual) or _bands(sights, usual)
        if parts:
            return [row for part in parts for row in _rows_in_order(part, usual)]
    return _rows(sights)


def _columns(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Split at the first vertical gap that separates columns of prose."""
    edge = _EDGE * usual
    for part in _gaps(sights, lambda s: (s.left + edge, s.right - edge), _GUTTER * usual):
        if all(_is_prose(side) for side in part):
            return part
    return []


def _is_prose(side: Sequence[Sight]) -> bool:
    return len(side) >= _COLUMN and median(len(s.text) for s in side) >= _PROSE


def _bands(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Split at the widest horizontal gap, if columns may be beside each other there."""
    if len(_rows(sights)) == len(sights):  # one line in each row: there is nothing beside another
        return []
    parts = _gaps(sights, lambda s: (s.top, s.bottom), 0.2 * usual)
    return max(parts, key=_distance) if parts else []


def _distance(part: list[list[Sight]]) -> float:
    above, below = part
    return min(s.top for s in below) - max(s.bottom for s in above)


def _gaps(
    sights: list[Sight], side: Callable[[Sight], tuple[float, float]], least: float
) -> list[list[list[Sight]]]:
    """Return every split at a gap of at least ``least`` pixels along one axis."""
    ordered = sorted(sights, key=side)
    splits = []
    end = side(ordered[0])[1]
    for at, sight in enumerate(ordered):
        start, stop = side(sight)
        if start - end >= least:
            splits.append([ordered[:at], ordered[at:]])
        end = max(end, stop)
    return splits


def _rows(sights: Sequence[Sight]) -> list[list[Sight]]:
    """Join boxes side by side to rows, from top to bottom."""
    rows: list[list[Sight]] = []
    for sight in sorted(sights, key=lambda s: (s.top + s.bottom, s.left)):
        if rows and _beside(rows[-1], sight):
            rows[-1].append(sight)
        else:
            rows.append([sight])
    return [sorted(row, key=lambda s: s.left) for row in rows]


def _beside(row: Sequence[Sight], sight: Sight) -> bool:
    top, bottom = median(s.top for s in row), median(s.bottom for s in row)
    shared = min(bottom, sight.bottom) - max(top, sight.top)
    return shared > _SAME * min(bottom - top, sight.bottom - sight.top)
