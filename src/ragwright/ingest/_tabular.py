"""CSV and TSV as one Markdown table; damaged rows are named, not lost."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core import EmptySourceError, MalformedSourceError, RagwrightError
from ._extract import Extract, SourceOptions, TextBuilder
from ._language import guess_language
from ._normalise import clean_metadata, decode

_DELIMITERS = ",;\t|"
_NAMED_ROWS = 5


def read_csv(data: bytes, where: str, suffix: str, options: SourceOptions) -> Extract:
    """A table from delimited text; the first row is the header.

    Rows with too few cells are padded; in rows with too many the surplus stays in the last
    cell. Both are reported in ``faults`` with their line numbers.

    Raises:
        EmptySourceError: No cell holds text.
        UnsupportedSourceError: The bytes are no text.
    """
    raw, encoding = decode(data, where, options.encoding)
    raw = raw.lstrip("\ufeff")
    delimiter = sniff_delimiter(raw, suffix)
    rows, faults = _rows(raw, delimiter, where)
    if not any(cell.strip() for _, row in rows for cell in row):
        raise EmptySourceError("no cell holds text", where=where, hint="remove or fill the file")
    even, ragged = _even(rows, delimiter, where)
    builder = TextBuilder()
    builder.table(even)
    text = builder.text()
    return Extract(
        text=text,
        language=guess_language(text),
        media_type="text/tab-separated-values" if delimiter == "\t" else "text/csv",
        metadata=clean_metadata(
            {"encoding": "" if encoding == "utf-8" else encoding, "rows": len(even) - 1}
        ),
        faults=(*faults, *ragged),
    )


def sniff_delimiter(text: str, suffix: str = "") -> str:
    """The delimiter that cuts the first 200 lines into the most even rows.

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


def _rows(
    text: str, delimiter: str, where: str
) -> tuple[list[tuple[int, list[str]]], tuple[RagwrightError, ...]]:
    """(line number, cells) of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return _numbered(reader), ()
    except csv.Error as error:
        fault = MalformedSourceError(
            f"the quoting is damaged: {error}",
            where=f"{where}:{reader.line_num}",
            hint="close the quotes; the file was read with quotes as plain characters",
        )
    lines = enumerate(text.splitlines(), 1)
    rows = [(number, line.split(delimiter)) for number, line in lines if line.strip()]
    return rows, (fault,)


def _numbered(reader: Any) -> list[tuple[int, list[str]]]:
    rows: list[tuple[int, list[str]]] = []
    before = 0
    for row in reader:
        if any(row):
            rows.append((before + 1, row))
        before = reader.line_num
    return rows


def _even(
    rows: Sequence[tuple[int, list[str]]], delimiter: str, where: str
) -> tuple[list[list[str]], tuple[RagwrightError, ...]]:
    """Rows of one width (the header's), and what had to be mended."""
    width = len(rows[0][1])
    even, wrong = [], []
    for line, row in rows:
        if len(row) != width:
            wrong.append((line, len(row)))
            surplus = delimiter.join(cell for cell in row[width - 1 :]) if len(row) > width else ""
            row = [*row[: width - 1], surplus] if surplus else [*row, *[""] * (width - len(row))]
        even.append(row)
    if not wrong:
        return even, ()
    named = ", ".join(f"row {line} has {count}" for line, count in wrong[:_NAMED_ROWS])
    more = f" and {len(wrong) - _NAMED_ROWS} more" if len(wrong) > _NAMED_ROWS else ""
    fault = MalformedSourceError(
        f"{len(wrong)} of {len(rows) - 1} rows differ from the header's {width} cells: "
        f"{named}{more}",
        where=f"{where}:{wrong[0][0]}",
        hint="mend the rows; they were read with missing cells empty and surplus ones joined",
    )
    return even, (fault,)
