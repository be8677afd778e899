"""From the text of a workbook or CSV file to its tables: header, rows, totals, notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from ...core import Document
from ._columns import SheetColumn, Value, is_missing, looks_typed, typed_column

_TOTAL = re.compile(
    r"(?:grand[ -]|sub[- ]?)?totals?|sums?|overall|averages?|mean"
    r"|gesamt(?:summe)?|summe|zwischensumme"
    r"|total g[ée]n[ée]ral|sous-total|somme|moyenne|mittelwert|durchschnitt|suma|promedio",
    re.IGNORECASE,
)
_NOTE = re.compile(r"\*|†|\d\)|(?:notes?|source|quelle|anmerkung|remarque|nota|fuente)\b", re.I)
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
    """

    sheet: str
    title: str
    page: int | None
    header: int
    columns: tuple[SheetColumn, ...]
    rows: tuple[SheetRow, ...]
    values: tuple[list[Value], ...]
    totals: tuple[int, ...] = ()


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


def tables_of(document: Document) -> list[SheetTable]:
    """Return the tables of a spreadsheet or CSV document, in the order of its text.

    Hidden sheets, blocks without a header, and those with fewer than one row of data are left out.
    """
    tables: list[SheetTable] = []
    before: tuple[_Block, int] | None = None
    for block in _blocks(document):
        width = max(map(len, block.cells))
        block.cells[:] = [row + [""] * (width - len(row)) for row in block.cells]
        at = _header_at(block.cells)
        if at is None:
            if before is not None and _continues(*before, block):
                earlier, head = before
                gap = block.first_row - earlier.first_row - len(earlier.cells)
                filler = [""] * width
                earlier.cells += [filler] * gap + block.cells
                earlier.spans += [(0, 0)] * gap + block.spans
                tables[-1] = _table(earlier, head, document) or tables[-1]
            continue
        table = _table(block, at, document)
        if table is not None:
            tables.append(table)
            before = (block, at)
    return tables


def _continues(earlier: _Block, head: int, block: _Block) -> bool:
    """True for rows below a table, after an empty row, with the same columns."""
    gap = block.first_row - earlier.first_row - len(earlier.cells)
    return (
        (earlier.sheet, earlier.first_column) == (block.sheet, block.first_column)
        and len(earlier.cells[0]) == len(block.cells[0])
        and 0 < gap <= 2
        and len(earlier.cells) > head + 1
    )


def _blocks(document: Document) -> Iterator[_Block]:
    """Yield the Markdown tables of a text, with their places."""
    listed = document.metadata.get("tables", ())
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
                yield _block(lines, sheet, page, notes, (row, column))
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


def _table(block: _Block, at: int, document: Document) -> SheetTable | None:
    names = _header_names(block.cells, at)
    body, totals = _body(block, at)
    if not body:
        return None
    rows = tuple(SheetRow(block.first_row + i, *block.spans[i]) for i in body)
    numbers = [row.number for row in rows]
    columns: list[SheetColumn] = []
    values: list[list[Value]] = []
    taken = set(RESERVED)
    for position, name in enumerate(names):
        cells = [block.cells[i][position] for i in body]
        column, held = typed_column(name, cells, numbers, computed=block.page is not None)
        unique, number = column.name, 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{column.name} ({number})"
        taken.add(unique.casefold())
        letter = _letter(block.first_column + position)
        columns.append(replace(column, name=unique, letter=letter))
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
        tuple(block.first_row + i for i in totals),
    )


def _letter(number: int) -> str:
    name = ""
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(65 + letter) + name
    return name


def _body(block: _Block, at: int) -> tuple[list[int], list[int]]:
    """Positions of rows of data and of totals, without notes and repeated headers."""
    header = block.cells[at]
    data: list[int] = []
    totals: list[int] = []
    width = len(header)
    for i in range(at + 1, len(block.cells)):
        row = block.cells[i]
        filled = [cell for cell in row if cell]
        if not filled or row == header:
            continue
        label = filled[0].strip(" :.")
        if looks_typed(label):
            label = ""
        match = _TOTAL.match(label)
        if match and (len(match[0]) == len(label) or _adds_up(block.cells, data, row)):
            totals.append(i)
        elif width > 2 and len(filled) == 1 and row[0] and _is_note(row[0]):
            continue
        else:
            data.append(i)
    if len(data) > 2:
        last = block.cells[data[-1]]
        labels = [cell for cell in last if cell and not looks_typed(cell)]
        if not labels and not last[0] and _adds_up(block.cells, data[:-1], last):
            totals.append(data.pop())
    return data, totals


def _is_note(text: str) -> bool:
    """True for a footnote: a mark, a word such as "source", or more words than a name has."""
    return bool(_NOTE.match(text)) or len(text.split()) > 5


def _adds_up(cells: Sequence[Sequence[str]], data: Sequence[int], row: Sequence[str]) -> bool:
    """True where a number of the row is the sum of the numbers above it, of all or of the last."""
    for position, cell in enumerate(row):
        if not cell or not looks_typed(cell):
            continue
        above = [cells[i][position] for i in data if not is_missing(cells[i][position])]
        _, numbers = typed_column("", [*above, cell], range(len(above) + 1), computed=True)
        if not all(isinstance(number, int | float) for number in numbers) or len(numbers) < 3:
            continue
        total, sums = numbers[-1], 0.0
        for number in reversed(numbers[:-1]):
            sums += float(number or 0)
            if abs(sums - float(total or 0)) < 1e-6 * max(1.0, abs(sums)) and number != total:
                return True
    return False
