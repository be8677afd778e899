"""CSV and TSV as Markdown tables, collections of BEIR as documents; damaged lines are named."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)
from ._encoding import decode, suffix_of
from ._extract import Extract, table_cell
from ._normalise import clean_metadata, guess_language, normalise
from ._options import SourceOptions
from ._seams import Failure, Reader, SourceFile

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
    lines_above = 1 if stated is not None else 0
    reader = csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter, strict=True)
    numbered = ((line + lines_above, row) for line, row in _numbered(reader))
    try:
        preamble, lines, wrong = _write(numbered, delimiter, where)
    except csv.Error as error:
        faults.append(
            MalformedSourceError(
                f"the quoting is damaged: {error}",
                where=f"{where}:{reader.line_num + lines_above}",
                hint="close the quotes; the file was read with quotes as plain characters",
            )
        )
        plain = enumerate(raw.rstrip().split("\n"), 1 + lines_above)
        rows = ((number, line.split(delimiter)) for number, line in plain)
        preamble, lines, wrong = _write(rows, delimiter, where)
    text = "\n\n".join(filter(None, (preamble, "\n".join(lines))))
    text = text if text.strip("|- \n") else ""
    return Extract(
        text=text,
        language=guess_language(text),
        media_type="text/tab-separated-values" if delimiter == "\t" else "text/csv",
        metadata=clean_metadata({"encoding": decoded.unusual, "rows": len(lines) - 2}),
        faults=(*faults, *wrong),
    )


def _count_above(rows: list[list[str]]) -> int:
    """Count the rows above a table: what made it, and when.

    They are narrower than the table, and have one cell, at most half as many cells, or an empty
    row below them.
    """
    widths = Counter(len(row) for row in rows if len(row) > 1)
    usual = widths.most_common(1)[0][0] if widths else 0
    above = 0
    for row in rows[:_MOST_ABOVE]:
        filled = sum(map(bool, row))
        gap = [] in rows[above:_MOST_ABOVE] and filled < usual
        narrow = len(row) < 2 or 2 * filled <= usual or gap
        if len(row) > usual or not narrow or (filled and not usual):
            break
        above += 1
    return above if above < len(rows) and any(map(any, rows[:above])) else 0


def _write(
    rows: Iterator[tuple[int, list[str]]], delimiter: str, where: str
) -> tuple[str, list[str], list[RagwrightError]]:
    """Return the text above a table, its Markdown lines, and a fault if rows were uneven.

    It goes row by row so that the cells of a large file are never all in memory.
    """
    head = list(islice(rows, _TELLING_ROWS))
    above = _count_above([[cell.strip() for cell in row] if any(row) else [] for _, row in head])
    preamble = (" ".join(filter(None, map(str.strip, row))) for _, row in head[:above])
    widths = [len(row) for _, row in head[above:] if any(map(str.strip, row))]
    width, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
    width = width if 2 * count > len(widths) else widths[0] if widths else 0
    lines: list[str] = []
    wrong: list[tuple[int, int]] = []
    for number, row in chain(head[above:], rows):
        if not any(map(str.strip, row)):
            continue
        if len(row) != width:
            wrong.append((number, len(row)))
            surplus = [delimiter.join(row[width - 1 :])] if len(row) > width else []
            row = [*row[: width - len(surplus)], *surplus, *[""] * (width - len(row))]
        lines.append(f"| {' | '.join([table_cell(cell) for cell in row])} |")
    lines.insert(1, "| " + " | ".join(["-"] * width) + " |")
    said = "\n".join(filter(None, preamble))
    if not wrong:
        return said, lines, []
    named = ", ".join(f"row {line} has {count}" for line, count in wrong[:_NAMED_ROWS])
    more = f" and {len(wrong) - _NAMED_ROWS} more" * (len(wrong) > _NAMED_ROWS)
    fault = MalformedSourceError(
        f"{len(wrong)} of {len(lines) - 1} rows differ from the usual {width} cells: {named}{more}",
        where=f"{where}:{wrong[0][0]}",
        hint="correct these rows; they were read with missing cells empty and surplus cells joined",
    )
    return said, lines, [fault]


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
    """Yield the number of each row's first line, and its cells."""
    before = 0
    for row in reader:
        yield before + 1, row
        before = reader.line_num


_SAMPLE = 50
"""Number of documents from which the language of a collection is detected."""


class BeirReader(Reader):
    """Reads ``beir:DIR``: lines ``{"_id", "title", "text", "metadata"}`` of ``corpus.jsonl``.

    A document's id is its ``_id``; a text that is empty is replaced by the title. A line that is
    not a document, or repeats an id, is a failure that names it, and reading continues. Memory is
    constant except for the ids. The language is detected once for the collection, unless metadata
    names it.

    Args:
        base: Folder that relative paths start from.
    """

    name = "beir"

    def __init__(self, base: Path | None = None) -> None:
        self.base = base or Path()

    def accepts(self, source: str) -> bool:
        """True for ``beir:``."""
        return source.lower().startswith("beir:")

    def files(self, source: str) -> Iterator[Path | Failure]:
        """Return the corpus file of the folder."""
        folder = self.base / Path(source.partition(":")[2]).expanduser()
        path = folder / "corpus.jsonl"
        if path.is_file():
            yield path
            return
        error = UnsupportedSourceError(
            "the folder contains no corpus.jsonl",
            where=str(folder),
            hint="give the folder to which a BEIR data set was unpacked",
        )
        yield Failure(source, error)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of a corpus file, in its order."""
        assert isinstance(path, Path)
        items = _read_lines(path, f"beir:{path.parent}")
        first = list(islice(items, _SAMPLE))
        if not first:
            error = EmptySourceError(
                "the corpus contains no document",
                where=str(path),
                hint="write one object per line, or download the data set again",
            )
            yield Failure(f"beir:{path.parent}", error)
        texts = (item.text[:400] for item in first if isinstance(item, Document))
        language = guess_language("\n".join(texts))
        for item in chain(first, items):
            if isinstance(item, Document):
                stated = item.metadata.get("language")
                yield replace(item, language=str(stated or language))
            else:
                yield item


def _read_lines(path: Path, source: str) -> Iterator[Document | Failure]:
    """Yield the document of each line, or its failure."""
    lines: dict[str, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                document = _document(line, f"{path}:{number}") if line.strip() else None
                if document and lines.setdefault(document.id, number) != number:
                    raise DuplicateIdError(
                        f"the id {document.id!r} is on line {lines[document.id]} and again on "
                        f"line {number}",
                        where=f"{path}:{number}",
                        hint="make the ids unique; the first document was kept",
                    )
            except RagwrightError as error:
                yield Failure(source, error)
            else:
                yield from [document] if document else []


def _document(line: bytes, where: str) -> Document:
    """Read a line.

    Raises:
        MalformedSourceError: It is not a JSON object with an id and texts.
        EmptySourceError: Neither title nor text.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"))
        values = (record["_id"], *(record.get(name) for name in ("title", "text", "metadata")))
        expected = (str | int, str | None, str | None, dict | None)
        named = not isinstance(values[0], bool) and str(values[0]).strip()
        if not named or not all(map(isinstance, values, expected)):
            raise TypeError("_id, title and text must be strings, metadata an object")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise MalformedSourceError(
            f"the line is not a document: {type(error).__name__}: {error}",
            where=where,
            hint='write one object per line, in UTF-8: {"_id": "1", "title": "…", "text": "…"}',
        ) from error
    title = " ".join(normalise(values[1] or "").split())
    text = normalise(values[2] or "")
    if not title and not text.strip():
        raise EmptySourceError(f"document {values[0]!r} has neither title nor text", where=where)
    return Document(
        id=str(values[0]),
        source=where,
        text=text if text.strip() else title,
        title=title,
        metadata=clean_metadata(values[3] or {}),
    )
