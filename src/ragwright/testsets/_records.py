"""Records of a file, one in memory at a time, and JSONL written completely or not at all."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, TypeAlias

from ..core import Row, TestsetError, csv_text, make_plain, replace_text, require
from ..ingest import decode


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Return (``file:line``, text) of every line that is not blank; a byte order mark is skipped.

    Raises:
        TestsetError: The file is missing, cannot be read, or is not UTF-8.
    """
    with open_bytes(path) as file:
        for number, data in enumerate(file, 1):
            where = f"{path}:{number}"
            try:
                text = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise TestsetError(
                    "the line is not UTF-8", where=where, hint="save the file as UTF-8"
                ) from error
            if text.strip():
                yield where, text


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes.

    Raises:
        TestsetError: The file is missing or cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise TestsetError("no such file", where=str(path), hint="check the path") from error
    except OSError as error:
        raise TestsetError(f"cannot read the file: {error.strerror}", where=str(path)) from error


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object with each key once: ``object_pairs_hook`` of :mod:`json`.

    Raises:
        ValueError: A key is given twice; the first value would be lost.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return members


def objects_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return (``file:line``, JSON object) of every line of a JSONL file.

    Raises:
        TestsetError: As :func:`lines_of`, or a line is not a JSON object.
    """
    for where, text in lines_of(path):
        try:
            value = json.loads(text, object_pairs_hook=build_object)
        except (ValueError, RecursionError) as error:
            raise TestsetError(
                f"the line is not JSON: {error}",
                where=where,
                hint="write one JSON object per line (JSONL)",
            ) from error
        yield where, _check_object(value, where)


Record: TypeAlias = tuple[str, dict[str, Any]]
"""(``file:line`` or ``file#row``, columns)."""

_BEFORE = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may stand before the first value: a byte order mark and blanks."""
_SEPARATED = {".csv": ",", ".tsv": "\t"}
TABLES = frozenset({*_SEPARATED, ".parquet"})
"""Suffixes of files whose cells may hold lists as text."""
_ANSWERS = frozenset({"actual_output", "answer", "outputs", "response"})
_QUESTIONS = frozenset(
    {"conversation", "input", "inputs", "messages", "query", "question", "request", "turns"}
    | {"user_input"}
)
_MOST_OF_A_CELL = 1 << 26
_BATCH = 4096


def records_of(path: Path) -> Iterator[Record]:
    """Return every record of a file; JSONL and Parquet are read lazily.

    Records are the objects of a JSON array, alone or under ``results`` (RAGChecker); the lines of a
    ``.csv`` or ``.tsv`` file under the names in the first line, without empty cells except an empty
    answer; the rows of ``.parquet`` (``[records]``). Anything else is read as JSONL, or as one JSON
    object over several lines.

    Raises:
        TestsetError: The file is missing, not UTF-8, or malformed; with file and line.
    """
    suffix = path.suffix.lower()
    if suffix in _SEPARATED:
        return _table_records(path, _csv_lines(path, _SEPARATED[suffix]))
    if suffix in TABLES:
        return _parquet_records(path)
    if suffix in (".xlsx", ".xls", ".ods"):
        raise TestsetError(
            "rows of a workbook are not read", where=str(path), hint="save the sheet as CSV"
        )
    with open_bytes(path) as file:
        first = next((line for line in file if line.strip(_BEFORE)), b"")
    try:
        by_line = isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        by_line = suffix != ".json" and not first.lstrip(_BEFORE).startswith(b"[")
    if by_line:
        return (row for where, value in objects_of(path) for row in _rows_within(value, where))
    return _json_records(path)


def list_of(cell: str, where: str) -> Any:
    """Return the list or object in a table's cell, as JSON or as printed by Python.

    Raises:
        TestsetError: Neither, or an array printed without commas: its strings cannot be separated.
    """
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        value = ast.literal_eval(cell)
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline)]
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise TestsetError(
            f"the cell {cell[:60]!r} is not a list", where=where, hint="write lists as JSON"
        ) from error
    # Python joins adjacent strings: two passages would become one.
    if (tokenize.STRING, tokenize.STRING) in pairwise(
        [kind for kind in kinds if kind not in {tokenize.NL, tokenize.NEWLINE}]
    ):
        raise TestsetError(
            "a list without commas cannot be read back",
            where=where,
            hint="write lists as JSON; arrays must be turned into lists before saving",
        )
    return value


def _rows_within(value: dict[str, Any], where: str) -> Iterator[Record]:
    """Yield the rows in an object, or the object if it is a row itself.

    Rows are under ``rows`` (written by ``score -o rows.json``), under ``results`` (RAGChecker), or
    in a table of ``columns`` and ``data`` (MLflow; the orientation ``split`` of pandas).
    """
    names, rows = value.get("columns"), value.get("data")
    if value.keys() & _QUESTIONS:
        yield where, value
        return
    if isinstance(value.get("rows"), list) and isinstance(value.get("measures"), dict):
        rows = value["rows"]
    elif isinstance(names, list) and isinstance(rows, list):
        rows = [_row_of_cells(names, cells, f"{where}#{n}") for n, cells in enumerate(rows, 1)]
    else:
        rows = value.get("results")
        for name, beside in value.items():
            if isinstance(beside, list) and beside and all(isinstance(r, dict) for r in beside):
                if name == "results":
                    continue
                raise TestsetError(
                    f"the object is not a row; rows seem to be under {name!r}",
                    where=where,
                    hint="write that list to a separate file, as a JSON array",
                )
    if not isinstance(rows, list):
        yield where, value
        return
    for number, row in enumerate(rows, 1):
        yield f"{where}#{number}", _check_object(row, f"{where}#{number}")


def _row_of_cells(columns: list[Any], cells: Any, where: str) -> dict[str, Any]:
    if not isinstance(cells, list) or len(cells) != len(columns):
        count = f"{len(cells)} cells" if isinstance(cells, list) else "not a list of cells"
        raise TestsetError(
            f"{count} under {len(columns)} column names",
            where=where,
            hint="give every line one cell for each column, null where it has none",
        )
    return dict(zip(map(str, columns), cells, strict=True))


def _check_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TestsetError(
            f"a row is {type(value).__name__}, not an object",
            where=where,
            hint="write one JSON object per line (JSONL), or an array of objects",
        )
    return value


def _json_records(path: Path) -> Iterator[Record]:
    """Read the rows of a JSON array, or of one object over several lines."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=build_object)
    except UnicodeDecodeError as error:
        raise TestsetError(
            "the file is not UTF-8", where=str(path), hint="save the file as UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        raise TestsetError(
            f"the file is not JSON: {error}",
            where=f"{path}:{error.lineno}"
            if isinstance(error, json.JSONDecodeError)
            else str(path),
            hint="write a JSON array of rows, or one JSON object per line (JSONL)",
        ) from error
    if isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield f"{path}#{number}", _check_object(row, f"{path}#{number}")
    else:
        yield from _rows_within(_check_object(value, str(path)), str(path))


_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n')
"""First line of a table by which Excel names the separator."""


def _table_records(path: Path, lines: Iterator[tuple[int, list[str]]]) -> Iterator[Record]:
    """Return the nonempty cells of each line under the names in the first one.

    An empty answer is included: the system was asked and answered nothing.
    """
    names = [name.strip() for name in next(lines, (1, []))[1]]
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise TestsetError(f"column {twice[0]!r} occurs twice", where=f"{path}:1")
    answers = [name for name in names if name in _ANSWERS]
    for number, cells in lines:
        if len(cells) > len(names):
            raise TestsetError(
                f"{len(cells)} cells under {len(names)} column names",
                where=f"{path}:{number}",
                hint="put cells that hold the separator into quotes",
            )
        filled = {n: c for n, c in zip(names, cells, strict=False) if n and c.strip()}
        if filled:
            unanswered = answers[:1] if filled.keys().isdisjoint(answers) else []
            yield f"{path}:{number}", filled | dict.fromkeys(unanswered, "")


def _csv_lines(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Read the lines of a table in UTF-8, in what Excel writes, or in what its bytes look like."""
    csv.field_size_limit(max(csv.field_size_limit(), _MOST_OF_A_CELL))
    with open_bytes(path) as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = decode(data, str(path)).text.removeprefix("\ufeff")
    stated = _SEPARATOR_LINE.match(text)
    if stated:
        text, separator = text[stated.end() :], stated[1]
    number = 1
    try:
        if separator == "," and not stated:
            head = [text.partition("\n")[0]]
            separator = max(",;\t", key=lambda mark: len(next(csv.reader(head, delimiter=mark))))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        for cells in reader:
            number = reader.line_num + bool(stated)
            yield number, [csv_text(cell) for cell in cells]
    except csv.Error as error:
        raise TestsetError(f"not a table: {error}", where=f"{path}:{number}") from error


def _parquet_records(path: Path) -> Iterator[Record]:
    """Read the rows of a Parquet file, a few thousand in memory at a time.

    A column of objects has the keys of all rows; those that only other rows have are left out.
    """
    parquet = require("pyarrow.parquet", "records", "reading Parquet files")
    arrow = require("pyarrow", "records", "reading Parquet files")
    number = 0
    with open_bytes(path) as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=_BATCH):
                for record in batch.to_pylist():
                    number += 1
                    for name, value in record.items():
                        if isinstance(value, dict):
                            record[name] = {k: v for k, v in value.items() if v is not None}
                    yield f"{path}:{number}", record
        except arrow.ArrowException as error:
            raise TestsetError(
                f"not a Parquet file that can be read: {error}", where=str(path)
            ) from error


def row_record(row: Row) -> dict[str, Any]:
    """Return a row as one JSON object: the nonempty fields, under ragwright's names."""
    record = {
        name: value
        for name, value in make_plain(row).items()
        if value not in (None, "", (), [], {})
    }
    if row.response is not None:
        record["response"] = row.response  # an empty answer is an answer
    return {"id": row.id, "user_input": row.user_input, **record}


def make_plain_row(row: Row) -> dict[str, Any]:
    """Return a row as plain values, for hashes and the run store.

    A row without history lacks the field.
    """
    values: dict[str, Any] = make_plain(row)
    if not values["history"]:
        del values["history"]
    return values


def write_rows(rows: Iterable[Row], path: str | Path) -> None:
    """Write rows as JSONL; see :func:`write_lines`."""
    write_lines(Path(path), map(row_record, rows))


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSONL, completely or not at all.

    Raises:
        TestsetError: The file cannot be written; the old file is unchanged.
    """
    lines = [json.dumps(record, ensure_ascii=False, default=list) for record in records]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise TestsetError(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error
