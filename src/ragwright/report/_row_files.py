"""Files of rows with answers and scores: CSV, Parquet and Excel."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import ConfigError, count_noun, csv_lines, require

Record = Mapping[str, Any]

_LONGEST = 32_767
"""Characters of a cell in Excel."""

_MOST_ROWS = 1_048_575
_CUT = " … (cut)"
_WIDE = frozenset({"user_input", "response", "reference", "retrieved_contexts"})


@dataclass(frozen=True, slots=True)
class ScoredRowFile:
    """A file of rows.

    Attributes:
        data: Its bytes.
        note: What it could not hold; empty if nothing.
    """

    data: bytes
    note: str = ""


def check_row_file(suffix: str) -> None:
    """Refuse a file of rows whose package is missing, before any request is made.

    Raises:
        MissingExtraError: It is; with the line that installs it.
    """
    if suffix == ".parquet":
        require("pyarrow.parquet", "records", "writing Parquet files")
    if suffix == ".xlsx":
        require("xlsxwriter", "docs", "writing Excel files")


def row_file(records: Sequence[Record], suffix: str) -> ScoredRowFile:
    """Return records with the same keys as a file: ``.csv``, ``.parquet`` or ``.xlsx``.

    In CSV and Excel lists and objects are JSON. Text that a spreadsheet would run gets an
    apostrophe in CSV; in Excel it is text. A cell of Excel holds 32,767 characters: longer ones are
    cut, and the note counts them.

    Raises:
        MissingExtraError: The package is missing.
        ConfigError: More rows than Excel has.
    """
    return _WRITERS[suffix](records)


def _csv(records: Sequence[Record]) -> ScoredRowFile:
    head = list(records[0]) if records else ["id"]
    lines = csv_lines([head, *([_text(record[name]) for name in head] for record in records)])
    return ScoredRowFile("".join(lines).encode())


def _text(value: Any) -> Any:
    """A value as a cell: lists and objects as JSON."""
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False, default=list)
    return value


def _parquet(records: Sequence[Record]) -> ScoredRowFile:
    arrow = require("pyarrow", "records", "writing Parquet files")
    parquet = require("pyarrow.parquet", "records", "writing Parquet files")
    columns = {
        name: [record[name] for record in records] for name in (records[0] if records else ())
    }
    out = io.BytesIO()
    table = arrow.table({name: _column(values, arrow) for name, values in columns.items()})
    parquet.write_table(table, out)
    return ScoredRowFile(out.getvalue())


def _column(values: Sequence[Any], arrow: Any) -> Any:
    """A column of numbers, of lists of texts, or else of texts."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, list) and _are_texts(value) for value in known):
        return arrow.array(values, arrow.list_(arrow.string()))
    if known and all(isinstance(value, bool) for value in known):
        return arrow.array(values)
    if known and all(isinstance(value, int | float) for value in known):
        return arrow.array([None if value is None else float(value) for value in values])
    texts = [None if (text := _text(value)) is None else str(text) for value in values]
    return arrow.array(texts, arrow.string())


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _xlsx(records: Sequence[Record]) -> ScoredRowFile:
    writer = require("xlsxwriter", "docs", "writing Excel files")
    if len(records) > _MOST_ROWS:
        raise ConfigError(
            f"{count_noun(len(records), 'row')}, and a sheet of Excel holds {_MOST_ROWS:,}",
            hint="write .parquet, .jsonl or .csv",
        )
    out, cut = io.BytesIO(), 0
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with writer.Workbook(out, {"in_memory": True, **plain}) as book:
        sheet = book.add_worksheet("rows")
        bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True})
        sheet.freeze_panes(1, 2)
        head = list(records[0]) if records else ["id"]
        for at, name in enumerate(head):
            sheet.write_string(0, at, name, bold)
            sheet.set_column(at, at, 40 if name in _WIDE else 14)
        for line, record in enumerate(records, 1):
            for at, name in enumerate(head):
                value = _text(record[name])
                if isinstance(value, bool) or not isinstance(value, int | float):
                    text = "" if value is None else str(value)
                    if len(text) > _LONGEST:
                        text, cut = text[: _LONGEST - len(_CUT)] + _CUT, cut + 1
                    if text:
                        sheet.write_string(line, at, text, wrapped if name in _WIDE else None)
                else:
                    sheet.write_number(line, at, value)
    note = (
        f"{cut} cells are cut at {_LONGEST:,} characters, the limit of Excel: .parquet, .jsonl and "
        ".csv hold them whole"
    )
    return ScoredRowFile(out.getvalue(), note if cut else "")


_WRITERS: Mapping[str, Callable[[Sequence[Record]], ScoredRowFile]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".xlsx": _xlsx,
}
