"""Spreadsheets: a sheet is a page, each block of cells a table, with comments and drawings."""

from __future__ import annotations

import datetime
import functools
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..core import EncryptedSourceError, MalformedSourceError, require
from ._archive import Archive, ods_sheets
from ._encoding import join_raised, suffix_of
from ._extract import Block, Extract, TextBuilder, find_built_in_format, show_number, write_number
from ._options import SourceOptions
from ._package import DRAWN, A, Package, R, find_drawn, read_whole_number
from ._pdf_layout import group_runs

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_NOT_COMPUTED = (
    "never computed, so the formula is stored in place of its value",
    "open the workbook in a spreadsheet program and save it",
)
_ALIGN = f"{_S}rPr/{_S}vertAlign[@val='{{}}']".replace("{http", "{{http").replace("main}", "main}}")
_TYPES = {
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".xls": "application/vnd.ms-excel",
}
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def read_sheet(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a workbook, its cells as the sheets show them.

    Values are those last computed; merged cells are repeated in every place they cover.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    if not data.startswith(b"PK"):
        _read_by_calamine(data, where, builder)
    elif "xl/workbook.xml" in Archive(data, where, options).names:
        package = Package(data, where, options, builder, "xl/workbook.xml")
        book, sheets = _Book(package), package.relations(package.main_name)
        for sheet in package.main.iter(f"{_S}sheet"):
            target = sheets[sheet.get(f"{R}id")].target
            cells = book.cells(target)
            add_sheet(builder, sheet.get("name") or "", cells, book.drawn(target, cells))
    else:
        for name, grid in ods_sheets(data, where, options, builder):
            add_sheet(builder, name, cells_of(grid))
    return replace(builder.extract(_TYPES.get(suffix_of(where), _XLSX), {}), title="")


def _read_by_calamine(data: bytes, where: str, builder: TextBuilder) -> None:
    """Read a workbook in another form than Open XML; calamine gives values without formats."""
    calamine = require("python_calamine", "docs", "reading spreadsheets")
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        for name in workbook.sheet_names:
            sheet = workbook.get_sheet_by_name(name)
            rows = sheet.to_python(skip_empty_area=False)
            cells = cells_of([_show_value(value) for value in row] for row in rows)
            fill_merged(cells, ((*a, *b) for a, b in sheet.merged_cell_ranges or ()))
            add_sheet(builder, name, cells)
    except calamine.PasswordError as error:
        raise EncryptedSourceError(
            "the workbook is protected by a password",
            where=where,
            hint="save a copy without the password",
        ) from error
    except calamine.CalamineError as error:
        raise MalformedSourceError(
            f"the workbook is damaged: {error}", where=where, hint="open it and save it again"
        ) from error


def _show_value(value: Any) -> str:
    if isinstance(value, float):
        return write_number(value)
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().removesuffix("T00:00:00")
    return str(value).strip()


class _Book:
    """What the cells of a workbook refer to: texts, formats, and how days are counted."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._etree = require("lxml.etree", "docs", "reading spreadsheets")
        about, sums = package.main.find(f"{_S}workbookPr"), package.main.find(f"{_S}calcPr")
        self._from_1904 = about is not None and about.get("date1904") in ("1", "true")
        self._stale = sums is not None and sums.get("fullCalcOnLoad") in ("1", "true")
        strings, styles = (package.roots(package.main_name, k) for k in ("sharedStrings", "styles"))
        texts = (rich_text(item).strip() for root in strings[:1] for item in root)
        self._texts = {str(at): text for at, text in enumerate(texts)}
        self._formats = _formats(styles[0]) if styles else {}

    def cells(self, part: str) -> Cells:
        """Return the cells of a sheet that hold text."""
        cells: Cells = {}
        merged: list[tuple[int, int, int, int]] = []
        try:
            data = io.BytesIO(self._package.read(part)) if part else io.BytesIO(b"<none/>")
            found = self._etree.iterparse(data, tag=(f"{_S}row", f"{_S}mergeCell"), huge_tree=True)
            number = -1
            for _, element in found:
                if element.tag == f"{_S}row":
                    number = int(element.get("r") or number + 2) - 1
                    row = dict(self._row(element))
                    if row:
                        cells[number] = row
                else:
                    first, _, last = (element.get("ref") or "A1").partition(":")
                    merged.append((*_place(first), *_place(last or first)))
                element.clear()
        except (MalformedSourceError, self._etree.XMLSyntaxError, ValueError):
            self._package.builder.miss(
                "damaged sheet", "read as far as it goes", "save the file again"
            )
        fill_merged(cells, merged)
        return cells

    def _row(self, row: Any) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row:
            place = cell.get("r")
            column = _column(place.rstrip("0123456789")) if place else column + 1
            text = self._shown(cell)
            if text and column < 16_384:
                yield column, text

    def _shown(self, cell: Any) -> str:
        """Return what a cell shows; its formula if that was never computed."""
        kind, value = cell.get("t") or "n", cell.findtext(f"{_S}v") or ""
        formula = cell.find(f"{_S}f")
        if formula is not None and (not value or (self._stale and value == "0")):
            if kind == "str" and self._stale is False:
                return ""  # computed: an empty text
            self._package.builder.miss("formula", *_NOT_COMPUTED)
            return f"={formula.text}" if formula.text else value
        if kind == "s":
            return self._texts.get(value, "")
        if kind == "inlineStr":
            return "".join(map(rich_text, cell.iterfind(f"{_S}is"))).strip()
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value, value)
        if kind == "d":
            return value.removesuffix("T00:00:00").replace("T", " ")
        code = self._formats.get(cell.get("s") or "0", "")
        if kind != "n" or (not code and len(value) < 15 and value.isdecimal()):
            return value.strip()
        try:
            number = float(value)
        except ValueError:
            return value
        return show_number(number, code, from_1904=self._from_1904)

    def drawn(self, part: str, cells: Cells) -> Iterator[Block]:
        """Yield what a sheet has besides its cells: comments, text boxes, charts of its own."""
        roots = self._package.roots(part, "threadedComment", "comments")[:1]
        for note in (
            note for root in roots for note in root.iter("{*}comment", "{*}threadedComment")
        ):
            text = " ".join("".join(t.text or "" for t in note.iter("{*}t", "{*}text")).split())
            ref = note.get("ref") or ""
            row = cells.get(_place(ref)[0], {})
            label = row[min(row)] if row else ""
            yield Block(f"Comment on {ref}{f' ({label})' if label else ''}: {text}" if text else "")
        relations = self._package.relations(part).values()
        drawing = next((r.target for r in relations if r.kind == "drawing"), "")
        root = self._package.root(drawing)
        for shape in root.iter(f"{A}p", *DRAWN) if root is not None else ():
            if shape.tag == f"{A}p":
                yield Block("".join(t.text or "" for t in shape.iter(f"{A}t")).strip())
            elif not cells or shape.tag not in DRAWN[:2]:  # beside cells it shows what they hold
                yield from find_drawn(shape, self._package.relations(drawing), self._package)


def _formats(root: Any) -> dict[str, str]:
    """Return the number formats by the number of a cell's style; general ones are left out."""
    codes = {f.get("numFmtId"): f.get("formatCode") or "" for f in root.iter(f"{_S}numFmt")}
    numbers = (style.get("numFmtId") or "0" for style in root.iterfind(f"{_S}cellXfs/{_S}xf"))
    formats = (codes.get(n) or find_built_in_format(read_whole_number(n, 0)) for n in numbers)
    general = ("", "general", "@")
    return {str(at): code for at, code in enumerate(formats) if code.casefold() not in general}


def rich_text(item: Any) -> str:
    """Return a text of a cell, with raised and lowered runs, without the readings of its signs."""
    return join_raised(
        (
            (part.text if part.tag == f"{_S}t" else part.findtext(f"{_S}t")) or "",
            (part.find(_ALIGN.format("superscript")) is not None)
            - (part.find(_ALIGN.format("subscript")) is not None),
        )
        for part in item
        if part.tag in (f"{_S}t", f"{_S}r")
    )


def _place(ref: str) -> tuple[int, int]:
    """Return row and column from 0 of a place such as ``AB12``."""
    letters = ref.rstrip("0123456789")
    return int(ref[len(letters) :] or 1) - 1, _column(letters)


@functools.cache
def _column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - 64
    return column - 1


Cells = dict[int, dict[int, str]]
"""Row -> column -> text; none is empty."""
_MOST_FILLED = 200_000


def add_sheet(builder: TextBuilder, name: str, cells: Cells, drawn: Iterable[Block] = ()) -> None:
    """Append a sheet as a page: its name, its tables, and what is drawn on it."""
    builder.page(name)
    tables = list(tables_of(cells))
    blocks = [Block(t[0][0]) if len(t) == len(t[0]) == 1 else Block(rows=t) for t in tables]
    blocks += [block for block in drawn if block.line]
    builder.write([Block(name, 1)] * bool(blocks) + blocks)


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
        over = (
            b
            for b in reversed(found)
            if _columns(b)[-1] >= columns[0] and _columns(b)[0] <= columns[-1]
        )
        above = next(over, None)
        if above is not None and max(above) < min(block) and _goes_on(above, block):
            above.update(block)
        else:
            found.append(block)
    for block in found:
        columns = _columns(block)
        yield [[block[r].get(c, "") for c in columns] for r in sorted(block)]


def _columns(cells: Cells) -> list[int]:
    return sorted({column for row in cells.values() for column in row})


def _runs(places: Iterable[int]) -> list[list[int]]:
    return group_runs(places, lambda run, place: place == run[-1] + 1)


def _split(cells: Cells) -> Iterator[Cells]:
    """Yield the blocks that empty rows separate; side by side only if they are tables apart."""
    for rows in _runs(sorted(cells)):
        groups: list[Cells] = []
        for columns in _runs(_columns({r: cells[r] for r in rows})):
            right = {r: {c: cells[r][c] for c in columns if c in cells[r]} for r in rows}
            right = {r: row for r, row in right.items() if row}
            if groups and _reads_across(groups[-1], right):
                for r, row in right.items():
                    groups[-1].setdefault(r, {}).update(row)
            else:
                groups.append(right)
        for group in groups:
            yield from _split(group) if len(groups) > 1 else (dict(sorted(group.items())),)


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
    inside = len(columns) > 1 and columns[0] <= others[0] and others[-1] <= columns[-1]
    under_head = len(above) == 1 and others == columns
    row_alone = len(below) == 1 and len(first) > 1
    return inside and (under_head or row_alone or any(map(is_number, first.values())))


def is_number(text: str) -> bool:
    """True for a number, a date or an amount: digits first, few letters."""
    return bool(re.match(r"\W*\d", text)) and sum(map(str.isalpha, text)) <= 3
