"""Columns of a sheet: which type their cells have, and which value each cell holds."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from ._units import CURRENCIES, header_unit, named_unit

ColumnType: TypeAlias = Literal["number", "date", "text"]
Value: TypeAlias = str | int | float | None

_SAMPLED = 500
"""Cells of a column by which its type is guessed before all are read."""
_EMPTY = frozenset(
    ["", "-", "–", "—", "n/a", "na", "n.a.", "#n/a", "none", "null", "nan", "unknown", "k. a.", "?"]
)
_ERROR = re.compile(r"#(?:DIV/0!|REF!|VALUE!|NAME\?|NUM!|NULL!|SPILL!|CALC!|GETTING_DATA)", re.I)
_NUMBER = re.compile(
    r"(?P<open>\()?\s*(?P<sign>[-+−])?\s*(?P<before>[^\d\s.,()+−-]{1,12}\s?)??(?P<inner>[-−])?"
    r"(?P<digits>\d[\d.,'’\u00a0\u202f ]*?)(?P<power>[eE][+-]?\d+)?"
    r"\s*(?P<after>[^\d\s.,()+-][^\d\s,()]{0,15}(?: [a-z]+)?)?\s*(?P<close>\))?"
)
_DIGITS = re.compile(
    r"\d+(?:[.,]\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    r"|\d{1,3}(?:['’\u00a0\u202f ]\d{3})+(?:[.,]\d+)?|\d{1,2}(?:,\d{2})*,\d{3}(?:\.\d+)?"
)
"""Digits with marks where numbers have them; the last form is India's."""
_WRITTEN = re.compile(r"\d+(?:\.\d*[1-9])?")
"""Digits of a number as the reader of workbooks writes it."""
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar janvier enero", "feb february februar février febrero",
            "mar march märz mars marzo", "apr april avril abril", "may mai mayo",
            "jun june juni juin junio", "jul july juli juillet julio",
            "aug august août agosto", "sep sept september septembre septiembre",
            "oct october okt oktober octobre octubre", "nov november novembre noviembre",
            "dec december dez dezember décembre diciembre",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?")
_ORDERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
_WORDED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[. ]\s*([^\W\d]+)[.,]?\s+(\d{4})", re.I)
_MONTH_FIRST = re.compile(r"([^\W\d]+)\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})", re.I)


_UNIT_HEADERS = frozenset({
    "currency", "devise", "divisa", "einheit", "measure", "moneda", "unit", "unité", "uom",
    "valuta", "währung", "waehrung",
})  # fmt: skip
"""Words in headers of columns that hold the unit of each row."""
_MOST_UNITS = 40
_YES = frozenset(["true", "yes", "y", "ja", "oui", "sí", "si", "wahr", "vrai", "✓"])
_NO = frozenset(["false", "no", "n", "nein", "non", "falsch", "faux", "✗"])
_CODE = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column of a table in a sheet.

    Attributes:
        name: Header without its unit; unique in its table.
        type: ``number``, ``date`` (cells as ``YYYY-MM-DD``) or ``text``.
        unit: Unit of the numbers, such as ``kg`` or ``EUR``; empty without one.
        decimals: Most digits after the point of a number.
        problem: Why its numbers or dates may not be computed with; empty where they may.
        left_out: Cells that hold an error or a mark for a missing value, as ``B7 #DIV/0!``.
        distinct: True if no value occurs twice.
        letter: Its letter in the sheet, ``C`` for the third column.
        empty: Number of its cells without a value.
        searched: False where its values are too many to be found by the words of a question.
        units: The different units or currencies that a column of units holds, sorted.
        header: Header without its unit, which further columns of the table may have.
        below: True where an empty cell may stand for the value above it.
        yes: Cells that say yes, of a column that holds only yes and no.
        alike: Two of its values that differ in capitals or spaces only, as ``Open, open``.
        several: Values, folded, that also stand beside others in one cell, as in ``red, blue``.
    """

    name: str
    type: ColumnType = "text"
    unit: str = ""
    decimals: int = 0
    problem: str = ""
    left_out: tuple[str, ...] = ()
    distinct: bool = False
    letter: str = ""
    empty: int = 0
    searched: bool = True
    units: tuple[str, ...] = ()
    header: str = ""
    below: bool = False
    yes: tuple[str, ...] = ()
    alike: str = ""
    several: tuple[str, ...] = ()


def folded(text: str) -> str:
    """Return a text for comparison: its words in lower case, separated by single spaces."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def singular(name: str) -> str:
    """Return folded words without the endings of English plurals."""
    return " ".join(map(_singular_word, name.split()))


def _singular_word(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural else word


def is_missing(text: str) -> bool:
    """True for a cell without a value: empty, a mark such as ``n/a``, or a formula's error."""
    return not text or (
        len(text) < 16
        and (text.casefold() in _EMPTY or (text[0] == "#" and bool(_ERROR.fullmatch(text))))
    )


def looks_typed(text: str) -> bool:
    """True for a cell that holds a number or a date, in whatever form."""
    return bool(_number(text)) or _date(text, "either") is not None


def typed_column(
    header: str, cells: Sequence[str], addresses: Sequence[int], *, computed: bool = False
) -> tuple[SheetColumn, list[Value]]:
    """Type a column by all of its cells, and read them.

    A column holds numbers or dates where at least four in five of its cells do. Every cell that
    cannot be read then, and every doubt about how all of them are written, is its ``problem``:
    nothing is computed from a guess.

    Args:
        header: The header.
        cells: Cells of its rows.
        addresses: Row numbers of the cells in the sheet.
        computed: They are of a workbook, which writes numbers with a decimal point.
    """
    name, unit = header_unit(header)
    held = [(row, cell) for row, cell in zip(addresses, cells, strict=True) if not is_missing(cell)]
    marked = {cell for cell in set(cells) if cell and is_missing(cell)}
    left_out = tuple(
        f"row {row}: {cell}" for row, cell in zip(addresses, cells, strict=True) if cell in marked
    )
    if _mostly(held, _is_number) and not _codes(cells):
        column, values = _numbers(name, unit, held, cells, computed)
    elif _mostly(held, _is_date):
        column, values = _dates(name, held, cells)
    else:
        values = [None if is_missing(cell) else cell for cell in cells]
        column = SheetColumn(
            " ".join(header.split()),
            units=_units_of(header, held),
            yes=_yes_cells(values),
            alike=_alike(values),
            several=_several(values),
        )
        left_out = tuple(place for place in left_out if _ERROR.search(place))
    present = [value for value in values if value is not None]
    distinct = len(set(present)) == len(present) == len(cells) and not column.alike
    empty = len(cells) - len(present)
    return replace(column, left_out=left_out[:20], distinct=distinct, empty=empty), values


def _units_of(header: str, held: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """The units in the cells of a column that holds nothing else; empty for any other column."""
    cells = {cell for _, cell in held}
    if not 0 < len(cells) <= _MOST_UNITS:
        return ()
    named = {cell: named_unit(cell) for cell in cells}
    headed = bool(_UNIT_HEADERS & set(singular(folded(header)).split()))
    codes = all(unit or _CODE.fullmatch(cell) for cell, unit in named.items())
    currencies = codes and bool(CURRENCIES & set(named.values()))
    if headed or currencies or all(named.values()):
        return tuple(sorted({unit or cell for cell, unit in named.items()}))
    return ()


def _yes_cells(values: Sequence[Value]) -> tuple[str, ...]:
    """The cells that say yes; empty where there are others than yes and no, or empty ones."""
    different = {value for value in values if isinstance(value, str)}
    words = {value: value.casefold() for value in different}
    if None in values or not different or not all(w in _YES | _NO for w in words.values()):
        return ()
    return tuple(sorted(value for value, word in words.items() if word in _YES))


def _alike(values: Sequence[Value]) -> str:
    """Two values that differ in capitals or spaces only; empty without such."""
    known: dict[str, str] = {}
    for value in dict.fromkeys(value for value in values if isinstance(value, str)):
        other = known.setdefault(" ".join(value.casefold().split()), value)
        if other != value:
            return f"{other}, {value}"
    return ""


_LISTING = re.compile(r"[,;/|\n]|\s\+\s")  # "Sales & Marketing" is one department
_MOST_SEVERAL = 1_000


def _several(values: Sequence[Value]) -> tuple[str, ...]:
    """Values, folded, that other cells hold together with further ones."""
    different = {value for value in values if isinstance(value, str)}
    whole = {folded(value) for value in different}
    found: set[str] = set()
    for value in different:
        parts = [part for part in map(folded, _LISTING.split(value)) if part]
        if len(parts) > 1:
            found.update(part for part in parts if part in whole)
    return tuple(sorted(found)[:_MOST_SEVERAL])


def may_stand_below(cells: Sequence[str], *, first: bool) -> bool:
    """True where empty cells may stand for the value above: each value begins a group of rows.

    Args:
        cells: Cells of a column of texts.
        first: It is the first column of its table.
    """
    held = [cell for cell in cells if cell]
    empty = len(cells) - len(held)
    if not empty or not cells[0] or len(set(held)) < len(held):
        return False
    return first or empty >= len(held)


def _mostly(held: Sequence[tuple[int, str]], fits: Callable[[str], bool]) -> bool:
    """True where at least four in five cells fit; first of a sample, then of all."""
    step = len(held) // _SAMPLED + 1
    for cells in (held[::step], held):
        if not cells or sum(fits(cell) for _, cell in cells) < 0.8 * len(cells):
            return False
    return True


def _is_number(text: str) -> bool:
    return _number(text) is not None


def _is_date(text: str) -> bool:
    return _date(text, "either") is not None


def _codes(cells: Sequence[str]) -> bool:
    """True for numbers with leading zeros, which are names: postcodes, part numbers."""
    return any(len(cell) > 1 and cell[0] == "0" and cell.isdigit() for cell in cells)


@lru_cache(100_000)
def _number(text: str) -> re.Match[str] | None:
    match = _NUMBER.fullmatch(text) if len(text) <= 60 and any(map(str.isdigit, text)) else None
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    if not _DIGITS.fullmatch(match["digits"].strip()):
        return None
    before, after = (match["before"] or "").strip(), match["after"] or ""
    if before and named_unit(before) not in CURRENCIES:
        return None
    if after and not named_unit(after):
        return None
    # "3A" and "12B" are names, "3 A" and "5m" are not
    joined = text[match.start("after") - 1].isdigit() if after else False
    return None if joined and len(after) == 1 and after not in "%€$£¥mghs" else match


def _numbers(
    name: str, unit: str, held: Sequence[tuple[int, str]], cells: Sequence[str], computed: bool
) -> tuple[SheetColumn, list[Value]]:
    matches = {cell: _number(cell) for cell in {cell for _, cell in held}}
    digits = [match["digits"].strip() for match in matches.values() if match]
    # a cell that a workbook would write otherwise holds text, as "2.500" of a German list
    computed = computed and all(map(_WRITTEN.fullmatch, digits))
    comma = decimal_mark(digits, computed=computed)
    units = Counter(
        named_unit((match["before"] or match["after"] or "").strip())
        for match in matches.values()
        if match
    )
    problem = ""
    written = [name for name in units if name]
    if unit and any(other != unit for other in written):
        problem = f"the header says {unit}, but cells say {', '.join(sorted(set(written)))}"
    elif len(written) > 1 or (written and units[""] and not unit):
        problem = f"its cells have different units: {', '.join(sorted(written))}" + (
            " and none" if units[""] else ""
        )
    if comma is None:
        problem = problem or "a comma or point in its numbers may separate thousands or decimals"
    unread = [f"row {row}: {cell!r}" for row, cell in held if matches[cell] is None]
    if unread:
        problem = problem or f"{len(unread)} of its cells hold no number, such as {unread[0]}"
    if problem:
        values: list[Value] = [None if is_missing(cell) else cell for cell in cells]
        return SheetColumn(name, "number", unit, problem=problem), values
    known = {cell: _read(match, comma) for cell, match in matches.items() if match and comma}
    values = [known.get(cell) for cell in cells]
    decimals = max((_decimals(number) for number in known.values()), default=0)
    return SheetColumn(name, "number", unit or (written[0] if written else ""), decimals), values


def decimal_mark(digits: Sequence[str], *, computed: bool = False) -> str | None:
    """Return the decimal mark of numbers as written, ``.`` where they show none.

    None where they disagree, or where a mark before three digits may separate decimals or
    thousands. Numbers of a workbook (``computed``) have decimal points. Commas separate thousands
    where whole numbers without a comma are all below a thousand.
    """
    shapes = {_mark_shape(text) for text in digits}
    certain = shapes & {".", ","}
    doubtful = shapes & {"?.", "?,"}
    if certain or not doubtful:
        return None if len(certain) > 1 else next(iter(certain), ".")
    if doubtful == {"?."}:
        return "." if computed else None
    plain = [text for text in digits if not {".", ","} & set(text)]
    grouped = doubtful == {"?,"} and plain and all(len(text) <= 3 for text in plain)
    return "." if grouped else None


def _mark_shape(text: str) -> str:
    """The decimal mark that a number shows; with ``?`` a mark that may separate thousands."""
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "." if text.rfind(".") > text.rfind(",") else ","
    if points + commas > 1:
        return "," if points else "."
    if not points + commas:
        return ""
    mark = "." if points else ","
    whole, after = text.split(mark)
    doubtful = len(after) == 3 and 1 <= len(whole) <= 3 and whole != "0"
    return f"?{mark}" if doubtful else mark


def _read(match: re.Match[str], comma: str) -> float | int:
    digits = match["digits"]
    other = "." if comma == "," else ","
    digits = re.sub(r"['’\u00a0\u202f ]", "", digits.replace(other, "")).replace(",", ".")
    number = float(digits + (match["power"] or ""))
    if match["sign"] in {"-", "−"} or match["inner"] or match["open"]:
        number = -number
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _decimals(number: Value) -> int:
    text = repr(number)
    return len(text.partition(".")[2]) if "." in text and "e" not in text else 0


def _dates(
    name: str, held: Sequence[tuple[int, str]], cells: Sequence[str]
) -> tuple[SheetColumn, list[Value]]:
    order = _day_first([cell for _, cell in held])
    if order == "unknown":
        values: list[Value] = [None if is_missing(cell) else cell for cell in cells]
        why = "day and month of its dates cannot be told apart"
        return SheetColumn(name, "date", problem=why), values
    values = [None if is_missing(cell) else _date(cell, order) for cell in cells]
    unread = [f"row {row}: {cell!r}" for row, cell in held if _date(cell, order) is None]
    if unread:
        values = [None if is_missing(cell) else cell for cell in cells]
        why = f"{len(unread)} of its cells hold no date, such as {unread[0]}"
        return SheetColumn(name, "date", problem=why), values
    return SheetColumn(name, "date"), values


def _day_first(cells: Sequence[str]) -> str:
    """``day``, ``month`` or ``unknown``: what comes first where both are numbers."""
    pairs = [
        (int(match[1]), int(match[3]))
        for match in map(_ORDERED.fullmatch, cells)
        if match and match[2] != "."
    ]
    day = any(first > 12 for first, _ in pairs)
    month = any(second > 12 for _, second in pairs)
    if day and month:
        return "unknown"
    if month or not pairs:
        return "month" if month else "day"
    return "day" if day or all(first == second for first, second in pairs) else "unknown"


def read_date(text: str) -> str | None:
    """Return a date as ``YYYY-MM-DD``, if the text is one and can be read in one way only."""
    match = _ORDERED.fullmatch(text)
    if match and match[2] != "." and int(match[1]) <= 12 and int(match[3]) <= 12:
        return None
    return _date(text, "day") or _date(text, "month")


def month_number(word: str) -> int:
    """Return the number of a month by its name, 0 for any other word."""
    return _MONTHS.get(word.casefold().strip("."), 0)


@lru_cache(100_000)
def _date(text: str, order: str) -> str | None:
    if match := _ISO.fullmatch(text):
        year, month, day = match[1], match[2], match[3]
    elif match := _ORDERED.fullmatch(text):
        first_is_month = match[2] != "." and (
            order == "month" or (order == "either" and int(match[3]) > 12)
        )
        day, month = (match[3], match[1]) if first_is_month else (match[1], match[3])
        year = match[4]
    elif match := _WORDED.fullmatch(text):
        day, month, year = match[1], str(month_number(match[2])), match[3]
    elif match := _MONTH_FIRST.fullmatch(text):
        day, month, year = match[2], str(month_number(match[1])), match[3]
    else:
        return None
    try:
        return datetime.date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
