"""CSV and TSV as one Markdown table; damaged rows are reported, not lost."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..core import MalformedSourceError, RagwrightError
from ._encoding import decode
from ._extract import Extract, table_cell
from ._language import guess_language
from ._normalise import clean_metadata, normalise
from ._options import SourceOptions
from ._sniff import suffix_of

_DELIMITERS = ",;\t|"
_NAMED_ROWS = 5
_MOST_ABOVE = 20
"""Most lines above a table: what made it, and when."""
_SEP = re.compile(r"sep=([,;\t|])[ ]*\n", re.I)
"""The line by which Excel is told the delimiter."""
_TELLING_ROWS = 200


def read_csv(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read delimited text as a table; the first row is the header.

    Rows with too few cells are padded; in rows with too many the surplus stays in the last
    cell. Both are reported in ``faults`` with their line numbers. Empty rows are left out. Lines
    above the table, parted from it by an empty line, become a paragraph.

    Raises:
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode(data, where, options.encoding)
    raw = normalise(decoded.text)
    stated = _SEP.match(raw)
    if stated is not None:
        raw = raw[stated.end() :]
    delimiter = stated[1] if stated is not None else sniff_delimiter(raw, suffix_of(where))
    faults = list(decoded.faults)
    preamble, raw, first = _preamble(raw, delimiter, 2 if stated is not None else 1)
    reader = csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter, strict=True)
    table = _Table(delimiter, where)
    try:
        table.take((line + first - 1, row) for line, row in _numbered(reader))
    except csv.Error as error:
        faults.append(
            MalformedSourceError(
                f"the quoting is damaged: {error}",
                where=f"{where}:{reader.line_num + first - 1}",
                hint="close the quotes; the file was read with quotes as plain characters",
            )
        )
        table = _Table(delimiter, where)
        lines = raw.rstrip().split("\n")
        table.take(
            (number, line.split(delimiter))
            for number, line in enumerate(lines, first)
            if line.strip()
        )
    text = "\n\n".join(filter(None, (preamble, "\n".join(table.lines))))
    text = text if text.strip("|- \n") else ""
    return Extract(
        text=text,
        language=guess_language(text),
        media_type="text/tab-separated-values" if delimiter == "\t" else "text/csv",
        metadata=clean_metadata(
            {
                "encoding": decoded.unusual,
                "rows": table.rows - 1,
            }
        ),
        faults=(*faults, *table.faults()),
    )


def _preamble(text: str, delimiter: str, line: int) -> tuple[str, str, int]:
    """Part the lines above a table from it: what made it, and when.

    They are narrower than the table, and have no delimiter, at most half as many cells, or an
    empty line below them.

    Returns:
        Them as a paragraph, the table, and the number of its first line.
    """
    lines = text.split("\n", _TELLING_ROWS)[:_TELLING_ROWS]
    widths = [len(row.split(delimiter)) for row in lines if delimiter in row]
    usual = Counter(widths).most_common(1)[0][0] if widths else 0
    above: list[str] = []
    for number, row in enumerate(lines[:_MOST_ABOVE]):
        quoted = row.count('"') and not row.count('"') % 2
        parts = next(csv.reader([row], delimiter=delimiter)) if quoted else row.split(delimiter)
        cells = [cell.strip() for cell in parts]
        filled = [cell for cell in cells if cell]
        gap = "" in lines[number:_MOST_ABOVE] and len(filled) < usual
        narrow = len(cells) < 2 or 2 * len(filled) <= usual or gap
        if len(cells) > usual or row.count('"') % 2 or not narrow or (filled and not usual):
            break
        above.append(" ".join(filled))
    kept = [row for row in above if row]
    if not kept or len(above) == len(lines):
        return "", text, line
    return "\n".join(kept), text.split("\n", len(above))[-1], line + len(above)


class _Table:
    """Markdown lines made row by row, so that a large file is not held in memory as cells."""

    def __init__(self, delimiter: str, where: str) -> None:
        self.lines: list[str] = []
        self.rows = 0
        self._delimiter = delimiter
        self._where = where
        self._width = 0
        self._named: list[tuple[int, int]] = []
        self._wrong = 0

    def take(self, rows: Iterable[tuple[int, list[str]]]) -> None:
        rows = iter(rows)
        head = list(itertools.islice(rows, _TELLING_ROWS))
        self._width = _usual_width([len(row) for _, row in head])
        for line, row in itertools.chain(head, rows):
            if len(row) != self._width:
                row = self._mend(line, row)
            cells = " | ".join([table_cell(cell) for cell in row])
            self.lines.append(f"| {cells} |")
            if not self.rows:
                self.lines.append("| " + " | ".join(["-"] * self._width) + " |")
            self.rows += 1

    def _mend(self, line: int, row: list[str]) -> list[str]:
        """Bring a row to the header's width; the surplus goes into the last cell."""
        self._wrong += 1
        if self._wrong <= _NAMED_ROWS:
            self._named.append((line, len(row)))
        last = self._width - 1
        if len(row) > self._width:
            return [*row[:last], self._delimiter.join(row[last:])]
        return [*row, *[""] * (self._width - len(row))]

    def faults(self) -> tuple[RagwrightError, ...]:
        if not self._wrong:
            return ()
        named = ", ".join(f"row {line} has {count}" for line, count in self._named)
        more = f" and {self._wrong - len(self._named)} more" * (self._wrong > len(self._named))
        fault = MalformedSourceError(
            f"{self._wrong} of {self.rows} rows differ from the usual {self._width} cells: "
            f"{named}{more}",
            where=f"{self._where}:{self._named[0][0]}",
            hint="correct these rows; they were read with missing cells empty and surplus cells "
            "joined",
        )
        return (fault,)


def sniff_delimiter(text: str, suffix: str = "") -> str:
    """Detect the delimiter that cuts the first 200 lines into the most even rows.

    Ties go to the suffix's own, then to comma, semicolon, tab, bar.
    """
    sample = text[:65_536]
    if len(text) > len(sample) and "\n" in sample:
        sample = sample[: sample.rfind("\n") + 1]
    best, best_score = "\t" if suffix == ".tsv" else ",", 0.0
    order = sorted(_DELIMITERS, key=lambda d: d != best)
    for delimiter in order:
        try:
            rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            widths = [len(row) for row, _ in zip(rows, range(200), strict=False) if row]
        except csv.Error:
            continue
        if not widths:
            continue
        width, count = max(Counter(widths).items(), key=lambda pair: (pair[1], pair[0]))
        score = (count / len(widths)) * (1 if width > 1 else 0) + 0.001 * min(width, 100)
        if width > 1 and score > best_score + 1e-9:
            best, best_score = delimiter, score
    return best


def _usual_width(widths: list[int]) -> int:
    """Return the width of most of the first rows, else the header's."""
    if not widths:
        return 0
    width, count = Counter(widths).most_common(1)[0]
    return width if count > len(widths) / 2 else widths[0]


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) for each row that is not empty."""
    before = 0
    for row in reader:
        if any(cell.strip() for cell in row):
            yield before + 1, row
        before = reader.line_num
