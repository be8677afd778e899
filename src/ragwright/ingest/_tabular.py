"""CSV and TSV as one Markdown table; damaged rows are reported, not lost."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..core import MalformedSourceError, RagwrightError
from ._encoding import decode, suffix_of
from ._extract import Extract, table_cell
from ._normalise import clean_metadata, guess_language, normalise
from ._options import SourceOptions

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
    numbered = ((line + first - 1, row) for line, row in _numbered(reader))
    try:
        lines, wrong = _write(numbered, delimiter, where)
    except csv.Error as error:
        faults.append(
            MalformedSourceError(
                f"the quoting is damaged: {error}",
                where=f"{where}:{reader.line_num + first - 1}",
                hint="close the quotes; the file was read with quotes as plain characters",
            )
        )
        plain = enumerate(raw.rstrip().split("\n"), first)
        rows = ((number, line.split(delimiter)) for number, line in plain if line.strip())
        lines, wrong = _write(rows, delimiter, where)
    text = "\n\n".join(filter(None, (preamble, "\n".join(lines))))
    text = text if text.strip("|- \n") else ""
    return Extract(
        text=text,
        language=guess_language(text),
        media_type="text/tab-separated-values" if delimiter == "\t" else "text/csv",
        metadata=clean_metadata(
            {
                "encoding": decoded.unusual,
                "rows": len(lines) - 2,
            }
        ),
        faults=(*faults, *wrong),
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


def _write(
    rows: Iterator[tuple[int, list[str]]], delimiter: str, where: str
) -> tuple[list[str], list[RagwrightError]]:
    """Return a table as lines of Markdown, and a fault if rows had to be brought to its width.

    Row by row, so that a large file is not held in memory as cells.
    """
    head = list(itertools.islice(rows, _TELLING_ROWS))
    widths = [len(row) for _, row in head]
    width, count = Counter(widths).most_common(1)[0] if head else (0, 0)
    width = width if 2 * count > len(widths) else widths[0] if widths else 0
    lines: list[str] = []
    wrong: list[tuple[int, int]] = []
    for number, row in itertools.chain(head, rows):
        if len(row) != width:
            wrong.append((number, len(row)))
            surplus = [delimiter.join(row[width - 1 :])] if len(row) > width else []
            row = [*row[: width - len(surplus)], *surplus, *[""] * (width - len(row))]
        lines.append(f"| {' | '.join([table_cell(cell) for cell in row])} |")
    lines.insert(1, "| " + " | ".join(["-"] * width) + " |")
    if not wrong:
        return lines, []
    named = ", ".join(f"row {line} has {count}" for line, count in wrong[:_NAMED_ROWS])
    more = f" and {len(wrong) - _NAMED_ROWS} more" * (len(wrong) > _NAMED_ROWS)
    fault = MalformedSourceError(
        f"{len(wrong)} of {len(lines) - 1} rows differ from the usual {width} cells: {named}{more}",
        where=f"{where}:{wrong[0][0]}",
        hint="correct these rows; they were read with missing cells empty and surplus cells joined",
    )
    return lines, [fault]


def sniff_delimiter(text: str, suffix: str = "") -> str:
    """Detect the delimiter that cuts the first 200 lines into the most even rows.

    Ties go to the suffix's own, then to comma, semicolon, tab, bar.
    """
    lines = text[:65_536].split("\n")[:_TELLING_ROWS]
    usual = "\t" if suffix == ".tsv" else ","
    order = sorted(_DELIMITERS, key=lambda d: d != usual)
    return max(order, key=lambda delimiter: _evenness(lines, delimiter))


def _evenness(lines: list[str], delimiter: str) -> float:
    """Return the share of rows of the commonest width, the wider the better; 0 if not cut."""
    try:
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
    except csv.Error:
        return 0.0
    width, count = max(widths.items(), key=lambda pair: pair[::-1], default=(0, 0))
    return count / widths.total() + 0.001 * min(width, 100) if width > 1 else 0.0


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) for each row that is not empty."""
    before = 0
    for row in reader:
        if any(cell.strip() for cell in row):
            yield before + 1, row
        before = reader.line_num
