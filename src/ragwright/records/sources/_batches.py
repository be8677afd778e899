"""Batches of rows that know where each row stood, values as text, encodings of files."""

from __future__ import annotations

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ...core import RecordsError
from .._seams import ArrowTable, compute, join_chunks, pa
from ..declared import SourceSpec

ROWS = 4_096
"""Rows of a batch."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of one file or query, which know where they came from.

    Attributes:
        rows: The rows.
        file: What the file is called in messages.
        numbers: Row of the file that each is, counted from 1.
    """

    rows: ArrowTable
    file: str
    numbers: Sequence[int]

    def place(self, at: int) -> str:
        """Return where a row came from: ``FILE, row N`` (from 1, without the header)."""
        return f"{self.file}, row {self.numbers[at]}"


class RowSource(ABC):
    """Rows from somewhere, as Arrow batches."""

    reached: str = ""
    """Text of the highest watermark so far; empty if the source has none."""

    @abstractmethod
    def stamp(self) -> str:
        """Equal only if reading again would give the same rows; empty if unknown."""

    @abstractmethod
    def batches(self, since: str = "") -> Iterator[RowBatch]:
        """Batches of some thousand rows, with the source's columns and values.

        A column has the same name in all batches, and perhaps another type.

        Args:
            since: Only rows whose watermark column is at or above this; empty for all.

        Raises:
            RecordsError: The source is missing, or of another kind; with place and reason.
            DatabaseError: The database fails, also half-way.
        """


def source_name(spec: SourceSpec, name: str) -> str:
    """Return a column's name in the source, before it is renamed."""
    return next((old for old, new in spec.rename.items() if new == name), name)


class RowFile(ABC):
    """One file of rows."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Names of the columns.

        Raises:
            RecordsError: It cannot be read, or is not what its name says.
        """

    @abstractmethod
    def batches(self) -> Iterator[RowBatch]:
        """Yield the rows.

        Raises:
            RecordsError: A row cannot be read; it is named.
        """


EXACT = 2**53
"""Whole numbers below are exact as doubles."""

_TYPES = {bool, int, float, str, bytes, bytearray, memoryview, date, datetime}
"""Types of values that a column keeps; others become text."""


def column_of(values: Sequence[Any]) -> ArrowTable:
    """Make an Arrow array of the type that holds the values without loss; else of their texts.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float} or (len(kinds) < 2 and kinds <= _TYPES):
        with suppress(pa.ArrowInvalid, OverflowError):
            column = pa.array(values)
            zoned = pa.types.is_timestamp(column.type) and column.type.tz
            return column.cast(pa.timestamp("us", "UTC")) if zoned else column
    return pa.array(map(text_of, values), pa.string())


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
    types = pa.types
    decimals = any(map(types.is_decimal, kinds)) and any(map(types.is_floating, kinds))
    # a decimal has more digits than a float
    if decimals or len({types.is_binary(kind) for kind in kinds if not types.is_null(kind)}) > 1:
        return pa.string()
    try:
        schemas = [pa.schema([("", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").types[0]
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.string()


def key_texts(column: ArrowTable) -> ArrowTable:
    """Return keys as one array of texts; whole numbers have no fraction, whatever their type."""
    types = pa.types
    column = join_chunks(column)
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
    """Parse a text to the type of another value; texts and other types stay texts.

    Raises:
        RecordsError: The text is not such a value.
    """
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(like, int | float | Decimal | date):
        return text
    kind: Any = int | float if isinstance(like, int | float) else type(like)
    try:
        value = TypeAdapter(kind).validate_strings(text)
    except ValidationError as error:
        raise RecordsError(
            f"the watermark {text!r} does not fit a column with values such as "
            f"{watermark_text(like)!r}",
            hint="read the whole source once: records refresh --full",
        ) from error
    if isinstance(like, datetime) and (like.tzinfo is None) != (value.tzinfo is None):
        utc = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return utc if like.tzinfo else utc.replace(tzinfo=None)
    return value


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks of encodings; UTF-32's begins as UTF-16's does."""


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


def undecodable(path: Path, encoding: str) -> RecordsError:
    """Return the error for a file that is not of its encoding; UTF-8 has a line."""
    where, why = str(path), ""
    if encoding.startswith("utf-8"):
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                where, why = f"{path}:{number}", f": the byte 0x{line[error.start]:02x}"
                break
    return RecordsError(
        f"the file is not encoded as {encoding}{why}",
        where=where,
        hint="give the file's encoding (latin-1, cp1252, …) under encoding: in source.yaml",
    )
