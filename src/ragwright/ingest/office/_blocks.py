"""Tables of a sheet: empty rows and columns separate them, unless the rows read across or on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .._extract import TextBuilder

Cells = dict[int, dict[int, str]]
"""Row -> column -> text; none is empty."""
_NUMERIC = re.compile(r"[^\w]*\d")
_MOST_FILLED = 200_000


def add_sheet(builder: TextBuilder, name: str, cells: Cells, beside: str = "") -> None:
    """Append a sheet as a page: its name, its tables, and what lies beside its cells."""
    builder.page(name)
    tables = list(tables_of(cells))
    if tables or beside:
        builder.heading(name, 1)
    for table in tables:
        if len(table) == 1 and len(table[0]) == 1:
            builder.add(table[0][0])
        else:
            builder.table(table)
    builder.add(beside)


def cells_of(grid: Iterable[Iterable[str]]) -> Cells:
    """Return the cells of a grid that hold text."""
    rows = ({c: text for c, text in enumerate(row) if text} for row in grid)
    return {r: row for r, row in enumerate(rows) if row}


def fill_merged(cells: Cells, ranges: Iterable[tuple[int, int, int, int]]) -> None:
    """Repeat merged cells (top, left, bottom, right) in the places that they cover.

    At most 200,000 places: a few bytes can declare millions.
    """
    last = max((c for row in cells.values() for c in row), default=-1)
    places = 0
    for top, left, bottom, right in ranges:
        text = cells.get(top, {}).get(left, "")
        right = min(right, last)
        rows = [cells[r] for r in range(top, min(bottom, top + _MOST_FILLED) + 1) if r in cells]
        places += len(rows) * (right - left + 1)
        for row in rows if text and places <= _MOST_FILLED else ():
            row.update(dict.fromkeys(range(left, right + 1), text))


def tables_of(cells: Cells) -> Iterator[list[list[str]]]:
    """Yield the tables of a sheet from the top, each with its header and without empty lines.

    An empty column parts tables only if each has rows or labels of its own; an empty row only if
    what is below it has a header of its own.
    """
    found: list[Cells] = []
    for block in _split(cells):
        columns = _columns(block)
        over = (b for b in reversed(found) if _overlap(_columns(b), columns))
        above = next(over, None)
        if above is not None and max(above) < min(block) and _goes_on(above, block):
            above.update(block)
        else:
            found.append(block)
    for block in found:
        columns = _columns(block)
        yield [[block[r].get(c, "") for c in columns] for r in sorted(block)]


def _overlap(columns: list[int], others: list[int]) -> bool:
    return columns[-1] >= others[0] and columns[0] <= others[-1]


def _columns(cells: Cells) -> list[int]:
    return sorted({column for row in cells.values() for column in row})


def _runs(places: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _split(cells: Cells) -> Iterator[Cells]:
    """Yield the blocks that empty rows separate; side by side only if they are tables apart."""
    for rows in _runs(sorted(cells)):
        band = {r: cells[r] for r in rows}
        groups: list[Cells] = []
        for columns in _runs(_columns(band)):
            chosen = set(columns)
            right = {r: {c: t for c, t in row.items() if c in chosen} for r, row in band.items()}
            right = {r: row for r, row in right.items() if row}
            if groups and _reads_across(groups[-1], right):
                for r, row in right.items():
                    groups[-1].setdefault(r, {}).update(row)
            else:
                groups.append(right)
        for group in groups:
            if len(groups) > 1:
                yield from _split(dict(sorted(group.items())))
            else:
                yield group


def _reads_across(left: Cells, right: Cells) -> bool:
    """Return True if the rows of two blocks beside an empty column belong together."""
    rows, others = set(left), set(right)
    if len(_columns(right)) == 1:
        return others <= rows
    if len(_columns(left)) == 1:
        return others <= rows or rows <= others
    first = min(_columns(right))
    labels = [right[r][first] for r in sorted(right)[1:] if first in right[r]]
    numbers = sum(map(is_number, labels))
    return len(rows & others) >= 0.75 * len(rows | others) and numbers >= 0.5 * len(labels)


def _goes_on(above: Cells, below: Cells) -> bool:
    """Return True if a block below an empty row has no header of its own."""
    columns, others = _columns(above), _columns(below)
    first = below[min(below)]
    if len(columns) < 2 or others[0] < columns[0] or others[-1] > columns[-1]:
        return False
    if len(below) == 1:
        return len(first) > 1 or any(map(is_number, first.values()))
    if len(above) == 1:
        numbers = any(map(is_number, next(iter(above.values())).values()))
        return any(map(is_number, first.values())) or (not numbers and others == columns)
    data = [above[r] for r in sorted(above)[1:]]
    for column, text in first.items():
        values = [row[column] for row in data if column in row]
        if is_number(text) and sum(map(is_number, values)) > 0.5 * len(values):
            return True
    return False


def is_number(text: str) -> bool:
    """True for a number, a date or an amount: digits first, few letters."""
    return bool(_NUMERIC.match(text)) and sum(map(str.isalpha, text)) <= 3
