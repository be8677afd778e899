"""Tables of a PDF page without rules, from the places of their words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from .._extract import markdown_table
from .._pdf_layout import BULLET, CAPTION, LEADER, WIDE, Block, Line, Word, box_around, groups_apart

_LIKE = 0.07
"""Letters of a table differ in height by at most this share."""
_FAR = 2.6
"""A row lies at most so many letter heights below the one before."""
_MOST_LINES = 400
_FEW_ROWS = 4
_SAMPLE = 60
"""Pieces of a column that are compared with each other."""
_NUMBER = re.compile(r"[\d\s.,:%+\-–−/()°€$£]*\d[\d\s.,:%+\-–−/()°€$£]*")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of words without a wide gap; ``words`` is empty where they are not known."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    words: tuple[Word, ...] = ()

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
    pairs = [*zip(lines[:start][-1:], lines[start:], strict=False)]
    pairs += zip(lines[:end][-1:], lines[end:], strict=False)
    return any(
        abs(before.bottom - after.bottom - pitch) < 0.12 * pitch
        and _alike(before, after)
        and abs(before.left - after.left) < 0.5 * before.size
        and before.bold == after.bold
        for before, after in pairs
    )


def _pieces(line: Line) -> list[_Piece]:
    whole = _Piece(line.text, line.left, line.right, line.bottom, line.top, line.words)
    return _split(whole, lambda before, word: word[1] > before[2] + WIDE * line.size)


def _split(piece: _Piece, parts: Callable[[Word, Word], bool]) -> list[_Piece]:
    """Split a piece between the words that ``parts`` says are apart."""
    groups = [list(piece.words[:1])]
    for before, word in itertools.pairwise(piece.words):
        if parts(before, word):
            groups.append([])
        groups[-1].append(word)
    if not piece.words:
        return [piece]
    return [
        _Piece(
            " ".join(word[0] for word in words),
            words[0][1],
            words[-1][2],
            piece.bottom,
            piece.top,
            tuple(words),
        )
        for words in groups
    ]


def _split_at(piece: _Piece, cuts: Sequence[tuple[float, float]]) -> list[_Piece]:
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
    return len(line.text) <= 80 and any(_beside(line, after) for after in lines[at + 1 : at + 2])


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
    spans = [(piece.left, piece.right) for piece in _pieces(first)]
    columns = _unions(spans, first.size)
    count = len(spans)
    low, end = first.bottom, start + 1
    for at in range(start + 1, min(len(lines), start + _MOST_LINES)):
        line = lines[at]
        size = max(first.size, 1.0)
        far = low - line.top > _FAR * size or line.bottom > first.top + 6 * size
        if far or not _alike(first, line) or CAPTION.match(line.text):
            break
        cuts = _gaps(columns) if count > 3 else []
        new = [part for piece in _pieces(line) for part in _split_at(piece, cuts)]
        if line.bottom < low - 0.5 * size and _bridges(columns, new):
            break
        columns = _unions([*columns, *((piece.left, piece.right) for piece in new)], size)
        count += len(new)
        if len(columns) < 2 and count > 2:
            break
        low, end = min(low, line.bottom), at + 1
    return end


def _table_start(lines: Sequence[Line], at: int, most: int, before: Sequence[Line | Block]) -> int:
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


def _bridges(columns: Sequence[tuple[float, float]], new: Sequence[_Piece]) -> bool:
    """Return True if a piece covers the gap between two columns; only a head may do so."""
    if len(columns) < 2:
        return False
    return any(
        sum(piece.left < right - 1 and piece.right > left + 1 for left, right in columns) > 1
        for piece in new
    )


def _columns(pieces: Sequence[_Piece], size: float) -> list[tuple[float, float]]:
    """Return the spans of the columns: unions of pieces, apart by half a letter's height."""
    return _unions([(piece.left, piece.right) for piece in pieces], size)


def _unions(spans: Sequence[tuple[float, float]], size: float) -> list[tuple[float, float]]:
    groups = groups_apart(spans, lambda span: span, 0.35 * size)
    return [(group[0][0], max(right for _, right in group)) for group in groups]


def _gaps(columns: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(a[1], b[0]) for a, b in itertools.pairwise(columns)]


def _finer(pieces: list[_Piece], size: float) -> list[_Piece]:
    """Split pieces where words of at least three stand under each other behind a gap."""
    cuts: list[tuple[float, float]] = []
    for left, right in _columns(pieces, size):
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


def _table(lines: Sequence[Line]) -> Block | None:
    """Return the lines as a table; None if they are something else."""
    size = median(line.size for line in lines)
    pieces = [piece for line in lines for piece in _pieces(line)]
    known = [p for line in lines if len(_pieces(line)) > 1 for p in _pieces(line)]
    gaps = _gaps(_columns(known, size))
    pieces = _finer([part for piece in pieces for part in _split_at(piece, gaps)], size)
    columns = _columns(pieces, size)
    rows = _rows(pieces, columns, size)
    if not _is_table(rows, lines) or not _is_aligned(pieces, columns, size):
        return None
    return Block(
        markdown_table(rows),
        rows=rows,
        size=size,
        lines=len(lines),
        kind="table",
        box=box_around((p.left, p.bottom, p.right, p.top) for p in pieces),
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


def _placed(pieces: Sequence[_Piece], columns: Sequence[tuple[float, float]]) -> list[list[str]]:
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


def _is_aligned(
    pieces: Sequence[_Piece], columns: Sequence[tuple[float, float]], size: float
) -> bool:
    """Return True if most pieces begin, end or are centred under others; justified text is not."""
    shares = []
    for left, right in columns[1:]:
        column = [piece for piece in pieces if left <= piece.left <= right][:_SAMPLE]
        if len(column) > 1:
            ends = [(piece.left, piece.right, (piece.left + piece.right) / 2) for piece in column]
            alike = [
                [sum(abs(value - other) <= 0.2 * size for value in side) for other in side]
                for side in zip(*ends, strict=True)
            ]
            most = max(map(max, alike))  # one alone counts 0
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
