"""Which rows of a table are data, and which are totals, notes, repeated headers, or in doubt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ._columns import is_missing, looks_typed, typed_column

_SUMS = (
    r"(?:grand[ -]?|sub[ -]?|sum[ -]|net[ -]|running[ -])?totals?|sums?|overall|averages?|avg|mean"
    r"|gesamt(?:summe|ergebnis)?|(?:zwischen|end)?summe|ergebnis|insgesamt"
    r"|total g[ée]n[ée]ral|sous-total|somme|moyenne|mittelwert|durchschnitt|suma|promedio|totale"
)
_SUM = re.compile(rf"(?:{_SUMS}|[Σ∑Ø])", re.IGNORECASE)
_WHOLE = re.compile(
    r"(?:all|both|alle[rs]?|beide|tou(?:te)?s|tod[oa]s|tutt[ie]|(?:full |whole )?year|jahr|année"
    r"|año|ytd|fy|(?:carried|brought) forward|übertrag)\b.*|(?P<period>[qhst])[1-4]\b.*",
    re.IGNORECASE | re.DOTALL,
)
"""Names of totals that say how much they hold: all regions, a year, a quarter."""
_NAMED_SUM = re.compile(rf"(?:{_SUMS})\b\W*(?P<after>.*)|(?P<before>.*?)\W*\b(?:{_SUMS})", re.I)
_FIGURE = re.compile(
    r"(?P<most>max(?:imum)?)|(?P<least>min(?:imum)?)|median|counts?|anzahl|nombre"
    r"|st(?:andar)?d\.?[ -]?dev(?:iation|\.)?|variance",
    re.IGNORECASE,
)
_NOTE = re.compile(r"\*|†|\d\)|(?:notes?|source|quelle|anmerkung|remarque|nota|fuente)\b", re.I)
_LONGEST = 80
"""Characters of the longest name of a total."""
_MOST_CHECKED = 200
"""Rows that may be totals by their place or their name; of more, the further ones are data."""


@dataclass(slots=True)
class Body:
    """The rows below a header.

    Attributes:
        data: Positions of the rows of data.
        totals: Positions of totals, averages and the like, which are not data.
        doubt: What may be wrong with this division; empty where nothing is.
    """

    data: list[int] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    doubt: str = ""


def body_of(cells: Sequence[Sequence[str]], first: int, header: Sequence[str], row: int) -> Body:
    """Divide the rows below a header.

    Args:
        cells: All rows of the table.
        first: Position of the first row below the header.
        header: The header, which may be repeated.
        row: Row number of the sheet at position 0.
    """
    return _Division(cells, first, header, row).body()


@dataclass
class _Division:
    cells: Sequence[Sequence[str]]
    first: int
    header: Sequence[str]
    row: int
    _result: Body = field(default_factory=Body)
    _checked: int = 0

    def body(self) -> Body:
        width = len(self.header)
        for at in range(self.first, len(self.cells)):
            row = self.cells[at]
            filled = [cell for cell in row if cell]
            if not filled or row == self.header:
                continue
            kind = self._kind(at, row, filled)
            if kind == "total":
                self._result.totals.append(at)
            elif not (row[0] and _notes(filled, width)):
                self._result.data.append(at)
                self._result.doubt = self._result.doubt or kind
        self._result.doubt = self._result.doubt or self._inner_header() or self._last_is_a_sum()
        return self._result

    def _kind(self, at: int, row: Sequence[str], filled: Sequence[str]) -> str:
        """``total``, a doubt in words, or empty for a row of data."""
        label = filled[0].strip(" :.")
        doubt = f"row {self.row + at} ({label!r}) may be a total or a row of data"
        if looks_typed(label):
            if any(map(_is_sum, filled)) and self._adds_up(row):
                return "total"
            return self._unnamed(at, row)
        alone = all(cell == filled[0] or looks_typed(cell) or is_missing(cell) for cell in filled)
        if _is_sum(label):
            return "total" if alone or self._adds_up(row) else doubt
        figure = _FIGURE.fullmatch(label)
        if figure and alone:
            return self._figure(figure, row, doubt)
        if any(map(_is_sum, filled)) and self._adds_up(row):
            return "total"
        if self._holds_the_above(row, filled):
            return "total" if self._agreement(row)[1] == 0 else doubt
        named = _NAMED_SUM.fullmatch(label) if len(label) < _LONGEST else None
        self._checked += named is not None
        if named is None or not _typed(filled) or self._checked > _MOST_CHECKED:
            return ""
        if self._adds_up(row) or self._names_the_last(row, named):
            return "total"
        return doubt if alone and self._has_more_texts(row) else ""

    def _figure(self, figure: re.Match[str], row: Sequence[str], doubt: str) -> str:
        """A row "Max" or "Count": its numbers are those of the rows above, or it is a name."""
        agreed = differing = 0
        for position, cell in enumerate(row):
            above = self._numbers(position, cell)
            if above is None:
                continue
            *numbers, value = above
            wanted = max(numbers) if figure["most"] else min(numbers) if figure["least"] else value
            agreed += value == wanted
            differing += value != wanted
        if differing or not agreed:
            return ""
        return "total" if agreed > 1 else doubt

    def _unnamed(self, at: int, row: Sequence[str]) -> str:
        """A row of numbers without a name, where others have one."""
        if row[0] or any(cell and not looks_typed(cell) for cell in row):
            return ""
        self._checked += 1
        named = sum(bool(self.cells[i][0]) for i in self._result.data)
        if (
            self._checked > _MOST_CHECKED
            or len(self._result.data) < 2
            or 2 * named < len(self._result.data)
        ):
            return ""
        if self._adds_up(row):
            return "total"
        texts = any(_is_text(self.cells[i][0]) for i in self._result.data)
        return f"row {self.row + at} has numbers and no name" if texts else ""

    def _holds_the_above(self, row: Sequence[str], filled: Sequence[str]) -> bool:
        """True for "All regions" and "Q1" below the rows that they add up."""
        names = [match for match in map(_WHOLE.fullmatch, filled) if match]
        self._checked += bool(names)
        if not names or self._checked > _MOST_CHECKED or not self._result.data:
            return False
        period = names[0]["period"]
        above = self.cells[self._result.data[-1]]
        periods = [match["period"] for match in map(_WHOLE.fullmatch, above) if match]
        same = period is not None and period.lower() in {p.lower() for p in periods if p}
        return not same and self._adds_up(row)

    def _agreement(self, row: Sequence[str]) -> tuple[int, int, int]:
        """How many numbers of a row are the sums of all above, how many are not, and of how many.

        The third number is the fewest numbers other than 0 that such a sum is of.
        """
        agreed = differing = 0
        fewest = len(self._result.data)
        for position, cell in enumerate(row):
            above = self._numbers(position, cell)
            if above is None:
                continue
            *numbers, total = above
            added = [number for number in numbers if number]
            if len(added) > 1 and abs(sum(added) - total) < 1e-6 * max(1.0, abs(total)):
                agreed += 1
                fewest = min(fewest, len(added))
            else:
                differing += 1
        return agreed, differing, fewest

    def _last_is_a_sum(self) -> str:
        """A doubt where the numbers of the last row are the sums of all above."""
        if len(self._result.data) < 3:
            return ""
        last = self._result.data.pop()
        row = self.cells[last]
        agreed, differing, fewest = self._agreement(row)
        self._result.data.append(last)
        texts = [cell for cell in row if _is_text(cell)]
        if len(texts) != 1 or not (agreed > 1 or (agreed and not differing and fewest > 2)):
            return ""
        return f"row {self.row + last} ({texts[0]!r}) may be a total or a row of data"

    def _names_the_last(self, row: Sequence[str], named: re.Match[str]) -> bool:
        """True for "West Total" below a single row of the West."""
        rest = (named["before"] or named["after"] or "").casefold()
        position = next(at for at, cell in enumerate(row) if cell)
        last = self.cells[self._result.data[-1]] if self._result.data else ()
        return bool(rest and last) and last[position].casefold() == rest

    def _has_more_texts(self, row: Sequence[str]) -> bool:
        """True where most rows of data have more texts than their name."""
        several = sum(sum(map(_is_text, self.cells[i])) > 1 for i in self._result.data)
        return 2 * several > len(self._result.data)

    def _numbers(self, position: int, cell: str) -> list[float] | None:
        """The numbers of a column above a cell, and its own; None where they are none."""
        if not cell or not looks_typed(cell):
            return None
        column = [self.cells[i][position] for i in self._result.data]
        above = [text for text in column if not is_missing(text)]
        _, numbers = typed_column("", [*above, cell], range(len(above) + 1), computed=True)
        if len(numbers) < 3 or not all(isinstance(n, int | float) for n in numbers):
            return None
        return [float(n) for n in numbers if isinstance(n, int | float)]

    def _adds_up(self, row: Sequence[str]) -> bool:
        """True where a number of the row is the sum of those above it, of all or of the last."""
        for position, cell in enumerate(row):
            above = self._numbers(position, cell)
            if above is None:
                continue
            *numbers, total = above
            sums = 0.0
            for number in reversed(numbers):
                sums += number
                if abs(sums - total) < 1e-6 * max(1.0, abs(sums)) and number != total:
                    return True
        return False

    @cached_property
    def _numeric(self) -> list[int]:
        """Positions of the columns in which most cells are numbers or dates."""
        positions = []
        for position in range(len(self.header)):
            column = [self.cells[i][position] for i in self._result.data[:500]]
            filled = [text for text in column if not is_missing(text)]
            typed = sum(map(looks_typed, filled))
            if typed > 1 and 2 * typed >= len(filled):
                positions.append(position)
        return positions

    def _inner_header(self) -> str:
        """A doubt where a row has texts in all columns of numbers: the header of another table."""
        for at in self._result.data if self._numeric else ():
            texts = [self.cells[at][position] for position in self._numeric]
            if not all(map(_is_text, texts)):
                continue
            if len(set(texts)) > 1 or (len(texts) == 1 and self._reads_as_names(at)):
                return f"row {self.row + at} looks like the header of another table"
        return ""

    def _reads_as_names(self, at: int) -> bool:
        """True for a row of capitalised texts without a digit, above others."""
        row = self.cells[at]
        words = all(cell[:1].isupper() and not any(map(str.isdigit, cell)) for cell in row)
        return words and len(set(row)) == len(row) and at != self._result.data[-1]


def _is_sum(cell: str) -> bool:
    text = cell.strip(" :.")
    return 0 < len(text) < 24 and not text[0].isdigit() and bool(_SUM.fullmatch(text))


def _typed(cells: Sequence[str]) -> bool:
    return any(map(looks_typed, cells))


def _is_text(cell: str) -> bool:
    return not is_missing(cell) and not looks_typed(cell)


def _notes(filled: Sequence[str], width: int) -> bool:
    """True for a footnote: a mark or a word such as "source", or more words than a name has."""
    text, *others = filled
    marked = bool(_NOTE.match(text))
    if others:
        return marked and len(others) == 1 and not _typed(filled)
    return width > 2 and (marked or len(text.split()) > 5)
