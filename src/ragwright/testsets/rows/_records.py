"""Records of a file, one in memory at a time, and JSONL written completely or not at all."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, TypeAlias

from ...core import Row, TestsetError, csv_text, make_plain, replace_text, require
from ...ingest import decode


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
        if not isinstance(value, dict):
            raise TestsetError(
                f"the line is {type(value).__name__}, not an object",
                where=where,
                hint="write one JSON object per line (JSONL)",
            )
        yield where, value


Record: TypeAlias = tuple[str, dict[str, Any]]
"""(``file:line``, columns)."""

_HEAD = 65_536
_PIECE = 1 << 20
_LONGEST = 1 << 26  # characters of one record
_ARRAY = re.compile(r"\s*(?P<wrapped>\{\s*\"results\"\s*:\s*)?\[")
_BETWEEN = re.compile(r"[\s,]*")
_SEPARATED = {".csv": ",", ".tsv": "\t"}
_SHEETS = (".xlsx", ".xls", ".ods")
_PARQUET = (".parquet",)
TABLES = frozenset({*_SEPARATED, *_SHEETS, *_PARQUET})
"""Suffixes of files whose cells may hold lists as text."""
_ANSWERS = frozenset({"actual_output", "answer", "outputs", "response"})
_QUESTIONS = frozenset(
    {"conversation", "input", "inputs", "messages", "query", "question", "request", "turns"}
    | {"user_input"}
)
_MOST_OF_A_CELL = 1 << 26
_BATCH = 4096


def records_of(path: Path) -> Iterator[Record]:
    """Return every record of a file, read lazily.

    Records are the objects of a JSON array, alone or under ``results`` (RAGChecker); the lines of a
    ``.csv`` or ``.tsv`` file and of the first sheet of ``.xlsx``, ``.xls`` and ``.ods``
    (``[docs]``) under the names in the first line, without empty cells except an empty answer; the
    rows of ``.parquet`` (``[records]``). Anything else is read as JSONL, or as one JSON object over
    several lines.

    Raises:
        TestsetError: The file is missing, not UTF-8, or malformed; with file and line.
    """
    suffix = path.suffix.lower()
    if suffix in _SEPARATED:
        return _table_records(path, _SEPARATED[suffix])
    if suffix in _SHEETS:
        return _sheet_records(path)
    if suffix in _PARQUET:
        return _parquet_records(path)
    with open_bytes(path) as file:
        head = file.read(_HEAD).decode("utf-8-sig", "replace")
    array = _ARRAY.match(head)
    one_line = not (array and not array["wrapped"]) and _is_json(head.split("\n", 1)[0])
    if array and not one_line:
        return _array_records(path)
    if suffix == ".json" and not one_line:
        return _document_records(path)
    return _line_records(path)


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


def _line_records(path: Path) -> Iterator[Record]:
    for where, value in objects_of(path):
        rows = _rows_within(value, where)
        if rows is None:
            yield where, value
        else:
            yield from _number_objects(rows, where)


def _rows_within(value: dict[str, Any], where: str) -> list[Any] | None:
    """Return the rows in an object, None if it is a row itself.

    Rows are under ``rows`` (written by ``score -o rows.json``), under ``results`` (RAGChecker), or
    in a table of ``columns`` and ``data`` (MLflow; the orientation ``split`` of pandas).

    Raises:
        TestsetError: It has rows under another name, or a line of its table has more or fewer cells
            than there are columns.
    """
    if value.keys() & _QUESTIONS:
        return None
    if isinstance(value.get("rows"), list) and isinstance(value.get("measures"), dict):
        return list(value["rows"])
    if isinstance(value.get("results"), list):
        _refuse_rows({name: rows for name, rows in value.items() if name != "results"}, where)
        return list(value["results"])
    columns, data = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        return [_row_of_cells(columns, cells, f"{where}#{at}") for at, cells in enumerate(data, 1)]
    _refuse_rows(value, where)
    return None


def _refuse_rows(value: dict[str, Any], where: str) -> None:
    """Refuse an object with rows under an unknown name."""
    for name, rows in value.items():
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            raise TestsetError(
                f"the object is not a row; rows seem to be under {name!r}",
                where=where,
                hint="write that list to a separate file, as a JSON array",
            )


def _row_of_cells(columns: list[Any], cells: Any, where: str) -> dict[str, Any]:
    """Return one line of a table that is stored as ``columns`` and ``data``."""
    if not isinstance(cells, list) or len(cells) != len(columns):
        count = f"{len(cells)} cells" if isinstance(cells, list) else "not a list of cells"
        raise TestsetError(
            f"{count} under {len(columns)} column names",
            where=where,
            hint="give every line one cell for each column, null where it has none",
        )
    return dict(zip(map(str, columns), cells, strict=True))


def _document_records(path: Path) -> Iterator[Record]:
    """Read one object over several lines."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=build_object)
    except (ValueError, RecursionError) as error:
        raise TestsetError(
            f"the file is not JSON: {error}",
            where=f"{path}:{getattr(error, 'lineno', 1)}",
            hint="write a JSON array of rows, or one JSON object per line (JSONL)",
        ) from error
    rows = _rows_within(value, f"{path}:1") if isinstance(value, dict) else None
    yield from _number_objects([value] if rows is None else rows, f"{path}:1")


def _number_objects(values: list[Any], where: str) -> Iterator[Record]:
    for number, value in enumerate(values, 1):
        yield f"{where}#{number}", _check_object(value, f"{where}#{number}")


def _check_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TestsetError(
            f"a row is {type(value).__name__}, not an object", where=where, hint="write objects"
        )
    return value


def _array_records(path: Path) -> Iterator[Record]:
    """Read the objects of an array, decoded one after the other from a window over the file."""
    decoder = json.JSONDecoder(object_pairs_hook=build_object)
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig")
        try:
            window = text.read(_HEAD)
            start = _ARRAY.match(window)
            wrapped = bool(start and start["wrapped"])
            at = start.end() if start else 0
            line = 1 + window.count("\n", 0, at)
            while True:
                separator = _BETWEEN.match(window, at)
                end = separator.end() if separator else at
                line += window.count("\n", at, end)
                at = end
                if window[at : at + 1] == "]":
                    _check_end(window[at + 1 :], text, wrapped, path, line)
                    return
                try:
                    value, end = decoder.raw_decode(window, at)
                except (ValueError, RecursionError) as error:
                    piece = text.read(_PIECE) if _is_cut_off(error, window, at) else ""
                    if not piece:
                        raise _json_error(error, path, line) from error
                    window, at = window[at:] + piece, 0
                    continue
                yield f"{path}:{line}", _check_object(value, f"{path}:{line}")
                line += window.count("\n", at, end)
                at = end
        except UnicodeDecodeError as error:
            raise TestsetError(
                "the file is not UTF-8", where=str(path), hint="save the file as UTF-8"
            ) from error


def _check_end(rest: str, text: IO[str], wrapped: bool, path: Path, line: int) -> None:
    """Refuse a file that continues after its array, since rows would be lost.

    Args:
        rest: The rest of the window.
        text: The file, to read on.
        wrapped: The array is under ``results``; other keys may follow, unless they hold rows.
        path: The file, for errors.
        line: Line of the closing bracket.

    Raises:
        TestsetError: Something follows; with its line.
    """
    if wrapped:
        rest += text.read(_LONGEST)
        head = '{"results": []'
        try:
            wrapper, end = json.JSONDecoder(object_pairs_hook=build_object).raw_decode(head + rest)
        except (ValueError, RecursionError) as error:
            raise _json_error(error, path, line) from error
        if wrapper.keys() & _QUESTIONS:
            raise TestsetError(
                "the object has rows under 'results', but is also a row itself",
                where=f"{path}:{line}",
                hint="write one JSON object per line (JSONL), or an array of rows",
            )
        _refuse_rows(wrapper, f"{path}:{line}")
        line += rest.count("\n", 0, end - len(head))
        rest = rest[end - len(head) :]
    while True:
        more = rest.lstrip()
        line += rest.count("\n", 0, len(rest) - len(more))
        if more:
            raise TestsetError(
                "the file continues after the end of its rows",
                where=f"{path}:{line}",
                hint="were two files joined? Write one array, or one JSON object per line (JSONL)",
            )
        rest = text.read(_PIECE)
        if not rest:
            return


def _is_cut_off(error: Exception, window: str, at: int) -> bool:
    """True if the window may end inside a record; a fault far from its end is a real one."""
    if not isinstance(error, json.JSONDecodeError) or len(window) - at > _LONGEST:
        return False
    return error.msg.startswith("Unterminated") or error.pos > len(window) - 16


def _json_error(error: Exception, path: Path, line: int) -> TestsetError:
    message = getattr(error, "msg", str(error))
    return TestsetError(
        f"this is not JSON: {message}",
        where=f"{path}:{line}",
        hint="write a JSON array of objects, or one JSON object per line (JSONL)",
    )


_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?')
"""First line of a table by which Excel names the separator."""


def _table_records(path: Path, separator: str) -> Iterator[Record]:
    """Read the lines of a table under the names of its first one."""
    csv.field_size_limit(max(csv.field_size_limit(), _MOST_OF_A_CELL))
    with open_bytes(path) as file:
        text = _table_text(file, path)
        reader: Any = None
        head, skipped = text.readline(), 1
        if stated := _SEPARATOR_LINE.fullmatch(head.strip("\r\n")):
            separator = stated[1]
        else:
            skipped = text.seek(0)
        try:
            if separator == "," and not skipped:
                separator = max(
                    ",;\t", key=lambda mark: len(next(csv.reader([head], delimiter=mark), []))
                )
            reader = csv.reader(text, delimiter=separator, strict=True)
            names = _column_names([csv_text(name) for name in next(reader, [])], path)
            for cells in reader:
                where = f"{path}:{reader.line_num + skipped}"
                if len(cells) > len(names):
                    raise TestsetError(
                        f"{len(cells)} cells under {len(names)} column names",
                        where=where,
                        hint="put cells that hold the separator into quotes",
                    )
                cells_by_name = _keep_filled_cells(names, [csv_text(cell) for cell in cells])
                if cells_by_name:
                    yield where, cells_by_name
        except csv.Error as error:
            line = 1 if reader is None else reader.line_num + skipped
            raise TestsetError(f"not a table: {error}", where=f"{path}:{line}") from error


def _table_text(file: IO[bytes], path: Path) -> IO[str]:
    """The text of a table: UTF-8, else what Excel writes, or what its bytes are likely to be."""
    try:
        for line in file:
            line.decode()
    except UnicodeDecodeError:
        file.seek(0)
        return io.StringIO(decode(file.read(), str(path)).text.removeprefix("\ufeff"), newline="")
    file.seek(0)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _column_names(names: Sequence[str], path: Path) -> list[str]:
    """Return the names of a table's columns.

    Raises:
        TestsetError: A name occurs twice.
    """
    stripped = [name.strip() for name in names]
    twice = [name for name in stripped if name and stripped.count(name) > 1]
    if twice:
        raise TestsetError(f"column {twice[0]!r} occurs twice", where=f"{path}:1")
    return stripped


def _keep_filled_cells(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the nonempty cells of a line under their names; an empty answer is included."""
    cells_by_name = {n: c for n, c in zip(names, cells, strict=False) if n and c.strip()}
    return _mark_empty_answer(cells_by_name, names) if cells_by_name else cells_by_name


def _sheet_records(path: Path) -> Iterator[Record]:
    """Read the rows of the first sheet of a workbook, every cell as its text."""
    calamine = require("python_calamine", "docs", "reading spreadsheets")
    with open_bytes(path) as file:
        data = file.read()
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        lines = workbook.get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (calamine.CalamineError, calamine.PasswordError, IndexError) as error:
        raise TestsetError(
            f"not a workbook that can be read: {error}",
            where=str(path),
            hint="save it without a password, or as CSV",
        ) from error
    names = _column_names([_cell_text(name) for name in lines[0]] if lines else [], path)
    for number, cells in enumerate(lines[1:], 2):
        cells_by_name = _keep_filled_cells(names, [_cell_text(cell) for cell in cells])
        if cells_by_name:
            yield f"{path}:{number}", cells_by_name


def _cell_text(cell: Any) -> str:
    """Return a cell as text: a whole number without a decimal point, a date in ISO 8601."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def _parquet_records(path: Path) -> Iterator[Record]:
    """Read the rows of a Parquet file, a few thousand in memory at a time."""
    parquet = require("pyarrow.parquet", "records", "reading Parquet files")
    arrow = require("pyarrow", "records", "reading Parquet files")
    number = 0
    with open_bytes(path) as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=_BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield f"{path}:{number}", {n: _drop_nulls(v) for n, v in record.items()}
        except arrow.ArrowException as error:
            raise TestsetError(
                f"not a Parquet file that can be read: {error}", where=str(path)
            ) from error


def _drop_nulls(value: Any) -> Any:
    """Drop the keys of an object that only other rows have: a column has the keys of all rows."""
    if isinstance(value, dict):
        return {name: member for name, member in value.items() if member is not None}
    return value


def _mark_empty_answer(cells: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    """Mark an empty answer cell: the system was asked and answered nothing."""
    columns = [name for name in names if name in _ANSWERS]
    if not columns or any(name in cells for name in columns):
        return cells
    return {**cells, columns[0]: ""}


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def row_record(row: Row) -> dict[str, Any]:
    """Return a row as one JSON object: the nonempty fields, under ragwright's names."""
    record = {field.name: getattr(row, field.name) for field in fields(Row)}
    record["reference_spans"] = [asdict(span) for span in row.reference_spans]
    record["retrieved_spans"] = [asdict(span) for span in row.retrieved_spans]
    record["history"] = [asdict(turn) for turn in row.history]
    record["metadata"] = dict(row.metadata)
    record["reference_ids"] = dict(row.reference_ids)
    nonempty = {
        name: value for name, value in record.items() if value not in (None, "", (), [], {})
    }
    if row.response is not None:
        nonempty["response"] = row.response  # an empty answer is an answer
    return {"id": row.id, "user_input": row.user_input, **nonempty}


def make_plain_row(row: Row) -> dict[str, Any]:
    """Return a row as plain values, for hashes and the run store.

    A row without history lacks the field.
    """
    values: dict[str, Any] = make_plain(row)
    if not values["history"]:
        del values["history"]
    return values


def write_rows(rows: Iterable[Row], path: str | Path) -> None:
    """Write rows as JSONL, completely or not at all.

    Raises:
        TestsetError: The file cannot be written; the old file is unchanged.
    """
    target = Path(path)
    lines = [json.dumps(row_record(row), ensure_ascii=False, default=list) for row in rows]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_text(target, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise TestsetError(
            f"the testset cannot be written: {error.strerror}", where=str(target)
        ) from error
