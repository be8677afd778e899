"""From the text of a workbook or CSV file to its tables: header, rows, totals, notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from ...core import Document, column_letters
from ._body import body_of
from ._columns import SheetColumn, Value, is_missing, looks_typed, may_stand_below, typed_column
from ._units import named_unit

_HEADER_ROWS = 12
"""Rows in which the header is looked for."""


RESERVED = ("_row", "_start", "_end")
"""Columns of every table beside its own: row number in the sheet, and span in the document."""


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row of data: its number in the sheet, and the span of its line in the document."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SheetTable:
    """A table of a sheet.

    Attributes:
        sheet: Name of the sheet; that of the file for CSV.
        title: Notes above the header, which often name the table.
        page: Number of the sheet in the document; None for CSV.
        header: Row number of the header.
        columns: The columns.
        rows: Rows of data, without header, notes and totals.
        values: Cells by column, one for each row.
        totals: Row numbers of totals, which are not data.
        doubt: Why its rows may be others than these; empty where they are certain.
    """

    sheet: str
    title: str
    page: int | None
    header: int
    columns: tuple[SheetColumn, ...]
    rows: tuple[SheetRow, ...]
    values: tuple[list[Value], ...]
    totals: tuple[int, ...] = ()
    doubt: str = ""


@dataclass(slots=True)
class _Block:
    """Lines of one Markdown table, with the place of its upper left cell in the sheet."""

    sheet: str
    page: int | None
    notes: list[str]
    first_row: int
    first_column: int
    cells: list[list[str]]
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class _Part:
    """A block with its header, to which blocks below may be joined.

    Attributes:
        block: The block.
        head: Position of the last row of its header.
        doubt: Why rows below it may belong to it, or may not.
    """

    block: _Block
    head: int
    doubt: str = ""


def tables_of(document: Document) -> list[SheetTable]:
    """Return the tables of a spreadsheet or CSV document, in the order of its text.

    Hidden sheets, blocks without a header, and those with fewer than one row of data are left out.
    """
    parts: list[_Part] = []
    for block in _blocks(document):
        width = max(map(len, block.cells))
        block.cells[:] = [row + [""] * (width - len(row)) for row in block.cells]
        at = _header_at(block.cells)
        above = next((p for p in reversed(parts) if _lies_below(block, p.block)), None)
        if above is not None and (at is None or _lacks_names(block, at, above)):
            _join(above, block)
        elif at is not None:
            parts.append(_Part(block, at))
            if above is not None and _all_texts(above) and _all_texts(parts[-1]):
                doubt = (
                    f"rows from {block.first_row} on may be a table of their own or belong above"
                )
                above.doubt = parts[-1].doubt = doubt
    tables = (_table(part, document) for part in parts)
    return [table for table in tables if table is not None]


_GAP = 2
"""Most empty rows within a table."""


def _lies_below(block: _Block, earlier: _Block) -> bool:
    """True for a block within the columns of an earlier one, below it."""
    start = block.first_column - earlier.first_column
    return (
        block.sheet == earlier.sheet
        and block.first_row >= earlier.first_row + len(earlier.cells)
        and 0 <= start <= len(earlier.cells[0]) - len(block.cells[0])
        and len(block.cells[0]) > 1
    )


def _join(part: _Part, block: _Block) -> None:
    """Add rows below a table to it, if they can be its own; else the table is in doubt."""
    earlier = part.block
    gap = block.first_row - earlier.first_row - len(earlier.cells)
    start = block.first_column - earlier.first_column
    width = len(earlier.cells[0])
    rows = [[*[""] * start, *row, *[""] * (width - start - len(row))] for row in block.cells]
    if gap > _GAP or not _fit(part, rows):
        if any(sum(map(bool, row)) > 1 for row in rows):
            part.doubt = part.doubt or f"rows from {block.first_row} on may belong to it"
        return
    earlier.cells += [[""] * width for _ in range(gap)] + rows
    earlier.spans += [(0, 0)] * gap + block.spans


def _fit(part: _Part, rows: Sequence[Sequence[str]]) -> bool:
    """True where numbers and dates stand in columns that hold such, and texts in others."""
    cells = part.block.cells
    for position in range(len(cells[0])):
        held = [row[position] for row in cells[part.head + 1 :][:_FITTED]]
        typed = sum(map(looks_typed, held))
        texts = sum(not is_missing(cell) for cell in held) - typed
        for row in rows[:_FITTED]:
            cell = row[position]
            if is_missing(cell) or not (typed or texts):
                continue
            if looks_typed(cell) if not typed else (not texts and not looks_typed(cell)):
                return False
    return True


_FITTED = 50
"""Rows that are compared where rows below a table may belong to it."""


def _lacks_names(block: _Block, at: int, above: _Part) -> bool:
    """True for rows right below a table whose first one names fewer columns than have cells."""
    names, width = block.cells[at], len(block.cells[0])
    gap = block.first_row - above.block.first_row - len(above.block.cells)
    if at or gap > _GAP or width != len(above.block.cells[0]):
        return False
    return any(
        not names[position] and any(row[position] for row in block.cells[1:])
        for position in range(width)
        if above.block.cells[above.head][position]
    )


def _all_texts(part: _Part) -> bool:
    """True for a table without a number or date."""
    return not any(
        looks_typed(cell) for row in part.block.cells[part.head + 1 :][:_FITTED] for cell in row
    )


def _blocks(document: Document) -> Iterator[_Block]:
    """Yield the Markdown tables of a text, with their places; empty rows part those of CSV."""
    listed = document.metadata.get("tables", ())
    empty = document.metadata.get("empty_rows", ())
    empty_rows = frozenset(map(str, empty)) if isinstance(empty, tuple) else frozenset()
    places = list(listed) if isinstance(listed, tuple) else []
    flat = not document.pages
    stem = PurePosixPath(document.source.rpartition("#")[2] or document.source).stem
    notes: list[str] = []
    lines: list[tuple[int, str]] = []
    at, number = 0, 0
    for line in (*document.text.split("\n"), ""):
        if line.startswith("| ") and line.endswith(" |"):
            lines.append((at, line))
        elif lines:
            place = places[number] if number < len(places) else ""
            number += 1
            sheet, row, column = _place(place) if place else (stem, 1, 1)
            if (flat or place) and not place.startswith("hidden:"):
                page = None if flat else _page_at(document, lines[0][0])
                whole = _block(lines, sheet, page, notes, (row, column))
                yield from _parted(whole, empty_rows) if flat else (whole,)
            notes, lines = [], []
        elif line.startswith("# "):
            notes = []
        if line and not lines and not line.startswith("# "):
            notes.append(line)
        at += len(line) + 1


def _block(
    lines: list[tuple[int, str]],
    sheet: str,
    page: int | None,
    notes: list[str],
    corner: tuple[int, int],
) -> _Block:
    kept = [lines[0], *lines[2:]]  # without the rule below the first row
    cells = [
        [cell.replace("\\|", "|") if "\\" in cell else cell for cell in line[2:-2].split(" | ")]
        for _, line in kept
    ]
    spans = [(start, start + len(line)) for start, line in kept]
    return _Block(sheet, page, notes, *corner, cells, spans)


def _parted(block: _Block, empty_rows: frozenset[str]) -> Iterator[_Block]:
    """Cut the rows of a CSV file where it has empty rows, whose numbers count."""
    number, begin = 0, 0
    numbers: list[int] = []
    for _ in block.cells:
        number += 1
        while str(number) in empty_rows:
            number += 1
        numbers.append(number)
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] > numbers[at - 1] + 1:
            cells, spans = block.cells[begin:at], block.spans[begin:at]
            if begin or at < len(numbers):
                width = max(len(row) - _empty_end(row) for row in cells)
                cells = [row[:width] for row in cells]
            yield replace(block, first_row=numbers[begin], cells=cells, spans=spans)
            begin = at


def _empty_end(row: Sequence[str]) -> int:
    """Number of empty cells at the end of a row."""
    return next((at for at, cell in enumerate(reversed(row)) if cell), len(row))


def _place(text: str) -> tuple[str, int, int]:
    sheet, _, cell = text.rpartition("!")
    match = re.fullmatch(r"([A-Z]+)(\d+)", cell)
    column = 0
    for letter in match[1] if match else "A":
        column = column * 26 + ord(letter) - 64
    return sheet, int(match[2]) if match else 1, column


def _page_at(document: Document, position: int) -> int | None:
    return next((p.number for p in document.pages if p.span.start <= position < p.span.end), None)


def _header_at(cells: Sequence[Sequence[str]]) -> int | None:
    """Position of the last row of the header; None where no row looks like one.

    The first row that is filled, holds words, and is followed by a row with at least two cells.
    Rows of one cell, or of one text across, are notes. A year or quarter may be the name of a
    column where the first column is named by a word.
    """
    width = len(cells[0])
    if width < 2:
        return None
    for at, row in enumerate(cells[:_HEADER_ROWS]):
        names = [cell for cell in row if cell]
        if len(names) < 2 or len(set(names)) == 1:
            continue
        if not _may_be_header(row) or at + 1 >= len(cells):
            return None
        below = cells[at + 1]
        grouped = len(set(names)) < len(names) or len(names) < width
        if grouped and _may_be_header(below) and at + 2 < len(cells) and _second_level(row, below):
            return at + 1
        if len(names) < max(2, width // 2):
            continue
        return at
    return None


def _may_be_header(row: Sequence[str]) -> bool:
    """True for names: no number or date but years, and words in most cells."""
    names = [cell for cell in row if cell]
    typed = [cell for cell in names if looks_typed(cell)]
    years = [cell for cell in typed if re.fullmatch(r"(?:19|20)\d\d", cell)]
    words = len(names) - len(typed)
    return bool(names) and words > 0 and len(typed) == len(years) and not looks_typed(names[0])


def _second_level(upper: Sequence[str], lower: Sequence[str]) -> bool:
    """True where the lower row names each column of the groups in the upper one.

    Under a text that spans several columns, the lower texts differ.
    """
    groups: dict[str, list[str]] = {}
    for name, sub in zip(upper, lower, strict=True):
        groups.setdefault(name, []).append(sub)
    spanning = {name: subs for name, subs in groups.items() if name and len(subs) > 1}
    return bool(spanning) and all(len(set(subs)) == len(subs) for subs in spanning.values())


def _header_names(cells: Sequence[Sequence[str]], at: int) -> list[str]:
    """Names of the columns: of two levels both, unless they are equal; none twice."""
    upper = cells[at - 1] if at and _second_level(cells[at - 1], cells[at]) else None
    names: list[str] = []
    for position, name in enumerate(cells[at]):
        above = upper[position] if upper else ""
        full = f"{above} {name}".strip() if above and above != name else name
        full = " ".join(full.split()) or f"column {position + 1}"
        names.append(full)
    return names


def _units_below(cells: Sequence[Sequence[str]], at: int) -> list[str] | None:
    """The row below a header, if it holds nothing but units, above numbers; else None."""
    if at + 2 >= len(cells):
        return None
    row, below = cells[at + 1], cells[at + 2]
    units = [cell.strip(" ()[]") for cell in row]
    named = [position for position, unit in enumerate(units) if unit]
    if not named or not all(named_unit(units[position]) for position in named):
        return None
    return units if any(looks_typed(below[position]) for position in named) else None


def _table(part: _Part, document: Document) -> SheetTable | None:
    block, at = part.block, part.head
    names = _header_names(block.cells, at)
    units = _units_below(block.cells, at)
    if units is not None:
        names = [f"{n} ({u})" if u else n for n, u in zip(names, units, strict=True)]
    first = at + 1 + (units is not None)
    body = body_of(block.cells, first, block.cells[at], block.first_row)
    if not body.data:
        return None
    rows = tuple(SheetRow(block.first_row + i, *block.spans[i]) for i in body.data)
    numbers = [row.number for row in rows]
    columns: list[SheetColumn] = []
    values: list[list[Value]] = []
    taken = set(RESERVED)
    for position, name in enumerate(names):
        cells = [block.cells[i][position] for i in body.data]
        column, held = typed_column(name, cells, numbers, computed=block.page is not None)
        unique, number = column.name, 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{column.name} ({number})"
        taken.add(unique.casefold())
        letter = column_letters(block.first_column + position)
        below = column.type == "text" and may_stand_below(cells, first=not position)
        several = column.several if position else ()  # "Salt", "Salt and pepper" name rows
        columns.append(
            replace(
                column,
                header=column.name,
                name=unique,
                letter=letter,
                below=below,
                several=several,
            )
        )
        values.append(held)
    above = [cell for row in block.cells[:at] for cell in dict.fromkeys(row) if cell]
    title = " ".join([*block.notes, *above[:3]]) if at else " ".join(block.notes)
    return SheetTable(
        block.sheet,
        title[:300],
        block.page,
        block.first_row + at,
        tuple(columns),
        rows,
        tuple(values),
        tuple(block.first_row + i for i in body.totals),
        part.doubt or body.doubt,
    )
