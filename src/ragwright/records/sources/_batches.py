"""Pieces of rows joined and cut into batches that know where each row stood."""

from __future__ import annotations

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python

from ...core import RecordsError
from .._seams import ArrowTable, RowSource, compute, pa
from ..declared import SourceSpec

_PLACES = b"ragwright.places"
"""Key of a batch's metadata: runs of rows as [first row of the batch, file, row there]."""

_BYTES = 1 << 28
"""Bytes that a batch holds at most (but for one row), however few rows that are."""

Runs: TypeAlias = list[tuple[int, str, int]]
"""First row of a run in its batch, what it is of, and which row of that it is."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of one file.

    Attributes:
        rows: The rows.
        file: What the file is called in messages.
        numbers: Row of the file that each is, counted from 1; int64, shape (rows,).
    """

    rows: ArrowTable
    file: str
    numbers: NDArray[np.int64]

    def slice(self, start: int, count: int) -> RowBatch:
        """Return some consecutive rows."""
        end = start + count
        return RowBatch(self.rows.slice(start, count), self.file, self.numbers[start:end])

    def filter(self, wanted: NDArray[np.bool_]) -> RowBatch:
        """Return the rows that are wanted."""
        return RowBatch(self.rows.filter(pa.array(wanted)), self.file, self.numbers[wanted])


def piece(rows: ArrowTable, file: str, first: int) -> RowBatch:
    """Make a piece of consecutive rows of a file, from row ``first`` (from 1) on."""
    return RowBatch(rows, file, np.arange(first, first + rows.num_rows, dtype=np.int64))


def cut_batches(pieces: Iterable[RowBatch], rows: int) -> Iterator[ArrowTable]:
    """Cut pieces into batches of ``rows`` rows (fewer at the end, or if rows are very long).

    All pieces have the same columns and types.
    """
    waiting: list[RowBatch] = []
    count = size = 0
    for part in pieces:
        if not part.rows.num_rows:
            continue
        most = max(1, int(_BYTES // (part.rows.nbytes / part.rows.num_rows + 1)))
        step = min(rows, most)
        at = 0
        while at < part.rows.num_rows:
            taken = part.slice(at, min(step - count, part.rows.num_rows - at))
            at += taken.rows.num_rows
            waiting.append(taken)
            count += taken.rows.num_rows
            size += taken.rows.nbytes
            if count >= step or size >= _BYTES:
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[RowBatch]) -> ArrowTable:
    runs: Runs = []
    offset = 0
    for part in pieces:
        breaks = np.flatnonzero(np.diff(part.numbers) != 1) + 1
        for start in (0, *breaks.tolist()):
            runs.append((offset + start, part.file, int(part.numbers[start])))
        offset += len(part.numbers)
    rows = pa.concat_tables([part.rows for part in pieces]).combine_chunks()
    return rows.replace_schema_metadata({_PLACES: json.dumps(runs)})


def runs_of(batch: ArrowTable) -> Runs:
    """Return where the rows of a batch came from, for :func:`place_in`."""
    runs: Runs = json.loads((batch.schema.metadata or {}).get(_PLACES, b"[]"))
    return runs


def place_in(runs: Runs, at: int) -> str:
    """Return where a row of a batch came from: ``FILE, row N`` (from 1, without the header)."""
    for first, file, row in reversed(runs):
        if first <= at:
            return f"{file}, row {row + at - first}"
    return f"row {at + 1} of a batch"


def place(batch: ArrowTable, at: int) -> str:
    """Return where a row of a batch came from, as :func:`place_in` does."""
    return place_in(runs_of(batch), at)


Columns: TypeAlias = Mapping[str, Any]
"""Column -> Arrow type, in the file's order."""


def source_name(spec: SourceSpec, name: str) -> str:
    """Return a column's name in the source, before it is renamed."""
    return next((old for old, new in spec.rename.items() if new == name), name)


class RowFile(ABC):
    """One file of rows.

    Args:
        path: The file.
        name: What it is called in messages.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """The columns with their types, over the whole file.

        Raises:
            RecordsError: It cannot be read, or is not what its name says.
        """

    @abstractmethod
    def pieces(self) -> Iterator[RowBatch]:
        """Yield the rows, with exactly those columns and types.

        Raises:
            RecordsError: A row cannot be read; it is named.
        """


EXACT = 2**53
"""Whole numbers below are exact as doubles."""

_KINDS = (
    (float, "float"),
    (str, "text"),
    (bytes | bytearray | memoryview, "bytes"),
)


def kind_of(value: Any) -> str:
    """Return the kind of a value of JSON or of a database; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if abs(value) < EXACT:
            return "int"
        return "long" if -(2**63) <= value < 2**63 else "huge"
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    if isinstance(value, datetime):
        return "moment" if value.tzinfo else "time"
    return "date" if isinstance(value, date) else "other"


def type_of(kinds: Iterable[str]) -> Any:
    """Return the Arrow type that holds values of some kinds without loss; else text."""
    distinct = set(kinds) - {""}
    if distinct and distinct <= {"int", "long"}:
        return pa.int64()
    if distinct and distinct <= {"int", "float"}:
        return pa.float64()
    single = {
        "bool": pa.bool_(),
        "bytes": pa.binary(),
        "date": pa.date32(),
        "time": pa.timestamp("us"),
        "moment": pa.timestamp("us", "UTC"),
    }
    return single.get(distinct.pop(), pa.string()) if len(distinct) == 1 else pa.string()


def column_of(values: Sequence[Any], kind: Any) -> ArrowTable:
    """Make an Arrow array of values; of their texts if the type is text.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
        ArrowException: A value is not of the type.
    """
    if pa.types.is_string(kind):
        return pa.array([text_of(value) for value in values], pa.string())
    return pa.array(values, kind)


def text_of(value: Any) -> str | None:
    """Write a value as text: bytes in hexadecimal digits, lists and records in JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=text_of)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, timedelta):
        return str(to_jsonable_python(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


def common_type(*kinds: Any) -> Any:
    """Return the Arrow type that values of several types can be cast to; text if there is none."""
    if len({pa.types.is_binary(kind) for kind in kinds if not pa.types.is_null(kind)}) > 1:
        return pa.string()
    try:
        schemas = [pa.schema([("", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.string()


def key_texts(column: ArrowTable) -> ArrowTable:
    """Return keys as one array of texts; whole numbers have no fraction, whatever their type."""
    types = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind):
        return compute.cast(column, pa.string())
    return pa.array([_key_text(value) for value in column.to_pylist()], pa.string())


def _key_text(value: Any) -> str | None:
    if value is None or value != value:  # the latter: not a number
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return text_of(value)


def watermark_text(value: Any) -> str:
    """Write a value as text that :func:`watermark_value` reads back.

    Times with a zone are converted to UTC, so that their texts sort in order.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def watermark_value(text: str, like: Any) -> Any:
    """Parse a text to the type of another value.

    Raises:
        RecordsError: The text is not such a value.
    """
    try:
        if isinstance(like, datetime):
            moment = datetime.fromisoformat(text)
            if like.tzinfo is None:
                return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(like, date):
            return datetime.fromisoformat(text).date()
        if isinstance(like, bool) or not isinstance(like, int | float | Decimal):
            return text
        if isinstance(like, float):
            return float(text)
        number = Decimal(text)
        return int(number) if isinstance(like, int) and number == int(number) else number
    except (ValueError, ArithmeticError) as error:
        raise RecordsError(
            f"the watermark {text!r} does not fit a column with values such as "
            f"{watermark_text(like)!r}",
            hint="read the whole source once: records refresh --full",
        ) from error


class Watermark:
    """The watermark of one reading.

    Nulls are always wanted. Texts are compared as texts.

    Args:
        since: Text of the highest value that was met before; empty for all.
    """

    def __init__(self, since: str = "") -> None:
        self._since = since
        self._highest: Any = None
        self.reached = since

    def wanted(self, column: ArrowTable) -> NDArray[np.bool_]:
        """Return which values are at or above it; the highest is kept in ``reached``.

        Raises:
            RecordsError: The watermark does not fit the column.
        """
        present = column.drop_null()
        if not len(present):
            return np.ones(len(column), np.bool_)
        highest = compute.max(present).as_py()
        wanted = np.ones(len(column), np.bool_)
        if self._since:
            since = watermark_value(self._since, highest)
            self._highest = since if self._highest is None else self._highest
            above = compute.greater_equal(column, pa.scalar(since, column.type))
            wanted = compute.fill_null(above, True).to_numpy(zero_copy_only=False)
        if self._highest is None or highest >= self._highest:
            self._highest, self.reached = highest, watermark_text(highest)
        return wanted


class WatermarkedSource(RowSource):
    """A source with a watermark, which starts again with each reading."""

    def __init__(self) -> None:
        self._watermark = Watermark()

    @property
    def reached(self) -> str:
        """Text of the highest watermark met so far."""
        return self._watermark.reached

    def batches(self, rows: int, since: str = "") -> Iterator[ArrowTable]:
        """Yield rows in the order of the source, with one set of columns and types."""
        return cut_batches(self._pieces(since), rows)

    @abstractmethod
    def _pieces(self, since: str) -> Iterator[RowBatch]:
        """Yield the rows at or above a watermark, as the source returns them."""


BLOCK = 1 << 23
"""Bytes of a block of lines; a longer line is a block of its own."""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks of encodings; UTF-32's begins as UTF-16's does."""


PLAIN = frozenset({"utf-8", "utf-8-sig", "ascii"})
"""Encodings that are UTF-8 but for a mark at the beginning."""


def encoding_of(path: Path, named: str) -> str:
    """Return a file's encoding as Python names it: its byte order mark's, the named one, or UTF-8.

    Raises:
        RecordsError: The file cannot be read, or there is no such encoding.
    """
    try:
        codecs.lookup(named or "utf-8")
    except LookupError as error:
        raise RecordsError(
            f"unknown encoding {named!r}",
            where=str(path),
            hint="for example utf-8, latin-1, cp1252, utf-16",
        ) from error
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    codec = codecs.lookup(named or "utf-8").name
    for mark, name in _MARKS:
        # Two bytes prove little against an encoding of single bytes that somebody named.
        if start.startswith(mark) and (codec.startswith("utf") or name == "utf-8-sig"):
            return name
    return codec


def unreadable(path: Path, error: OSError) -> RecordsError:
    """Return the error for a file that the system does not let us read."""
    return RecordsError(
        f"the file cannot be read: {error.strerror or type(error).__name__}", where=str(path)
    )


def utf8_chunks(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield a file as chunks of UTF-8, without a byte order mark; not yet validated.

    Raises:
        RecordsError: The file cannot be read, or is not of its encoding.
    """
    plain = encoding in PLAIN
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as file:
            if encoding == "utf-8-sig":
                file.seek(len(codecs.BOM_UTF8))
            while chunk := file.read(BLOCK):
                yield chunk if plain else decoder.decode(chunk).encode("utf-8")
            if not plain:
                yield decoder.decode(b"", final=True).encode("utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeError as error:
        raise RecordsError(
            f"the file is not encoded as {encoding}: {error}",
            where=str(path),
            hint="give its encoding under encoding: in source.yaml",
        ) from error


def line_blocks(path: Path, encoding: str) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole lines in valid UTF-8, and the number of their first line, from 1.

    Raises:
        RecordsError: As :func:`utf8_chunks`, or a line is not valid UTF-8; it is named.
    """
    waiting: list[bytes] = []
    line = 1
    for chunk in utf8_chunks(path, encoding):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            waiting.append(chunk)
            continue
        block = b"".join((*waiting, chunk[:cut]))
        waiting = [chunk[cut:]]
        check_utf8(block, path, line)
        yield block, line
        line += block.count(b"\n")
    block = b"".join(waiting)
    if block:
        check_utf8(block, path, line)
        yield block, line


def check_utf8(block: bytes, path: Path, line: int) -> None:
    """Refuse bytes that are not UTF-8.

    Raises:
        RecordsError: With the line of the first such byte.
    """
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise RecordsError(
            f"the byte 0x{block[error.start]:02x} is not UTF-8",
            where=f"{path}:{at}",
            hint="give the file's encoding (latin-1, cp1252, …) under encoding: in source.yaml",
        ) from error
