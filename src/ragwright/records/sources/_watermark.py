"""Watermarks: selection of the rows at or above one, and the highest value."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._seams import ArrowTable, RowSource
from ..declared import Lag
from ._batches import Piece, batched

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d($|[T ]\d\d:\d\d)")

_BEFORE, _BEHIND = timedelta(hours=14), timedelta(hours=12)
"""Range of time zones around UTC, for times without a zone."""

_ASTRAY = timedelta(minutes=5)
"""Most that a source's clock may lag behind ours."""


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


def _below(lag: Lag, value: Any) -> Any:
    """Subtract a lag from a value; without a lag, return the value.

    Raises:
        RecordsError: A lag of its kind cannot be taken from such a value.
    """
    timed = isinstance(value, date)
    if lag.amount is None:
        return value
    if isinstance(lag.amount, timedelta) and timed:
        whole = isinstance(value, datetime)
        try:
            if whole:
                return value - lag.amount
            return (datetime.combine(value, time()) - lag.amount).date()
        except OverflowError:
            return datetime.min.replace(tzinfo=value.tzinfo) if whole else date.min
    if isinstance(lag.amount, Decimal) and isinstance(value, int | float | Decimal):
        return (
            type(value)(Decimal(value) - lag.amount)
            if _fits(value, lag.amount)
            else (Decimal(value) - lag.amount)
        )
    raise RecordsError(
        f"a lag of {lag.text} cannot be taken from the watermark {watermark_text(value)!r}",
        where=lag.where,
        hint="use 90m, 12h or 2d for times, a number for numbers, none for other texts",
    )


def _fits(value: Any, amount: Decimal) -> bool:
    """Return True if a value less an amount has the value's type."""
    return not isinstance(value, int) or amount == int(amount)


class Watermark:
    """The watermark of one reading.

    Nulls and empty texts are always wanted. A column of texts is compared as the watermark is:
    as numbers, as ISO 8601 times with a zone, as times without one, else as texts. Texts that
    cannot be compared so are always wanted, and never become the watermark.

    Args:
        since: Text of the highest value that was met before; empty for all.
        lag: How far below that rows are wanted.

    Attributes:
        notes: What the reader should know of the watermark.
    """

    def __init__(self, since: str = "", lag: Lag | None = None) -> None:
        # what is written while rows are read is for the next reading
        self._begun = datetime.now(UTC)
        self._since = self._come(since)
        self._lag = lag or Lag()
        self._reached = self._since
        self._highest: Any = None
        self._kind = ""

    @property
    def reached(self) -> str:
        """Text of the highest value met, or ``since``; at most the start of reading.

        A wrong date in one row must not hide the rows that come before that date.
        """
        return self._of_beginning() or self._reached

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if the watermark is in the future."""
        note = f"the highest watermark, {self._reached}, is in the future; rows from "
        now, value = self._of_beginning(), self._highest
        if isinstance(value, datetime) and value.tzinfo and value <= self._begun + _ASTRAY:
            return ()  # written while rows were read, or by a clock that is ahead of ours
        return (f"{note}{now} on are read again",) if now else ()

    def _come(self, since: str) -> str:
        """Return the text of a stored watermark; if it is in the future, the start of reading."""
        kind = _kind_of(since) if since else ""
        value = _sortable(since, kind) if kind in {"moment", "time"} else None
        return self._before(value, since) or since

    def _of_beginning(self) -> str:
        """Return the start of reading as the column writes it, if the highest value is later."""
        return self._before(self._highest, self._reached)

    def _before(self, value: Any, text: str) -> str:
        """Return the start of reading in the form of a text, if that text's value is later."""
        if not isinstance(value, date):
            return ""
        now = self._begun
        if not isinstance(value, datetime):
            today = (now - _BEHIND).date()
            return today.isoformat() if value > (now + _BEFORE).date() else ""
        if value.tzinfo:
            return _written(now - _ASTRAY, text) if value > now else ""
        now = now.replace(tzinfo=None)
        return _written(now - _BEHIND, text) if value > now + _BEFORE else ""

    def lowest(self, like: Any) -> Any:
        """Return the lowest value that is wanted, of the type of another; a text for a text.

        Raises:
            RecordsError: The watermark, or the lag, does not fit the other value.
        """
        if not isinstance(like, str):
            return _below(self._lag, watermark_value(self._since, like))
        if self._lag.amount is None:
            return self._since
        low = _below(self._lag, _sortable(self._since, _kind_of(self._since)))
        return _written(low, self._since) if isinstance(low, datetime) else str(low)

    def wanted(self, column: ArrowTable) -> NDArray[np.bool_]:
        """Return which values are wanted; the highest is kept in ``reached``.

        Raises:
            RecordsError: The watermark, or the lag, does not fit the column.
        """
        pa = require("pyarrow", "records", "reading records")
        compute = require("pyarrow.compute", "records", "reading records")
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return self._texts(column)
        present = column.drop_null()
        if not len(present):
            return np.ones(len(column), np.bool_)
        highest = compute.max(present).as_py()
        _below(self._lag, highest)  # already reported at the first reading
        wanted = np.ones(len(column), np.bool_)
        if self._since:
            if self._highest is None:
                self._highest = watermark_value(self._since, highest)
            above = compute.greater_equal(column, _scalar(self.lowest(highest), column.type))
            wanted = compute.fill_null(above, True).to_numpy(zero_copy_only=False)
        if self._highest is None or highest >= self._highest:
            self._highest, self._reached = highest, watermark_text(highest)
        return wanted

    def _texts(self, column: ArrowTable) -> NDArray[np.bool_]:
        values = column.to_pylist()
        if self._highest is None:
            first = self._since or next((value for value in values if value), "")
            if not first:
                return np.ones(len(values), np.bool_)
            self._kind = _kind_of(first)
            self._highest = _sortable(first, self._kind)
            _below(self._lag, self._highest)
        since = _below(self._lag, _sortable(self._since, self._kind)) if self._since else None
        wanted = np.ones(len(values), np.bool_)
        for at, value in enumerate(values):
            key = _sortable(value, self._kind) if value else None
            if key is None:
                continue
            wanted[at] = since is None or key >= since
            if key > self._highest or not self._reached:
                self._highest, self._reached = max(key, self._highest), value
        return wanted


def in_order(text: str) -> bool:
    """Return True if a database sorts texts like this one by their meaning."""
    return _kind_of(text) in {"text", "time"}


def _kind_of(text: str) -> str:
    """Return how texts like this one are compared: number, moment (with a zone), time, text."""
    for kind in ("number", "moment", "time"):
        if _sortable(text, kind) is not None:
            return kind
    return "text"


def _sortable(text: str, kind: str) -> Any:
    """Return the value that a text is compared by; None if it is not of the kind."""
    if kind == "text":
        return text
    if kind == "number":
        return Decimal(text) if _NUMBER.fullmatch(text) else None
    if not _TIME.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if (moment.tzinfo is not None) == (kind == "moment") else None


def _written(value: datetime, like: str) -> str:
    """Write a time in the form of another text, so that the texts sort as the times do."""
    if len(like) <= len("2026-01-02"):
        return value.date().isoformat()
    clock = re.split(r"Z|[+-]", like[11:])[0]
    spec = "microseconds" if "." in clock else "seconds" if clock.count(":") == 2 else "minutes"
    return value.isoformat(like[10], spec)


def _scalar(value: Any, kind: Any) -> Any:
    pa = require("pyarrow", "records", "reading records")
    if isinstance(value, Decimal) and not pa.types.is_decimal(kind):
        value = float(value)
    return pa.scalar(value) if isinstance(value, float) else pa.scalar(value, kind)


class WatermarkedSource(RowSource):
    """A source with a watermark, which starts again with each reading."""

    def __init__(self) -> None:
        self._watermark = Watermark()

    @property
    def reached(self) -> str:
        """Text of the highest watermark met so far, never in the future."""
        return self._watermark.reached

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the watermark for the user."""
        return self._watermark.notes

    def batches(self, rows: int, since: str = "") -> Iterator[ArrowTable]:
        """Yield rows in the order of the source, with one set of columns and types."""
        return batched(self._pieces(since), rows)

    @abstractmethod
    def _pieces(self, since: str) -> Iterator[Piece]:
        """Yield the rows at or above a watermark, as the source returns them."""
