"""Watermarks: which rows are at or above one, and the highest that was met."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import RecordsError, require
from ._seams import ArrowTable

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def watermark_text(value: Any) -> str:
    """A value as text that :func:`watermark_value` reads back.

    Times with a zone are told in UTC, so that their texts sort as they do.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def watermark_value(text: str, like: Any) -> Any:
    """The value of a text, of the type of another value.

    Raises:
        RecordsError: The text is no such value.
    """
    try:
        if isinstance(like, datetime):
            found = datetime.fromisoformat(text)
            if like.tzinfo is None:
                return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
            return found if found.tzinfo else found.replace(tzinfo=UTC)
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
            f"the watermark {text!r} does not fit a column that holds {watermark_text(like)!r}",
            hint="read the whole source once: records refresh --full",
        ) from error


class Watermark:
    """The watermark of one reading.

    Nulls and empty texts are always wanted. A column of texts is compared as numbers where the
    watermark is a number (texts that are none are then always wanted), else as texts.

    Args:
        since: Text of the lowest value that is wanted; empty for all.
    """

    def __init__(self, since: str = "") -> None:
        self._since = since
        self.reached = since
        self._highest: Any = None

    def wanted(self, column: ArrowTable) -> NDArray[np.bool_]:
        """Which values are at or above the watermark; the highest is kept in ``reached``.

        Raises:
            RecordsError: The watermark does not fit the column.
        """
        pa = require("pyarrow", "records", "reading records")
        compute = require("pyarrow.compute", "records", "reading records")
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return self._texts(column)
        present = column.drop_null()
        if not len(present):
            return np.ones(len(column), np.bool_)
        highest = compute.max(present).as_py()
        wanted = np.ones(len(column), np.bool_)
        if self._since:
            since = watermark_value(self._since, highest)
            self._highest = since if self._highest is None else self._highest
            above = compute.greater_equal(column, _scalar(since, column.type))
            wanted = compute.fill_null(above, True).to_numpy(zero_copy_only=False)
        if self._highest is None or highest >= self._highest:
            self._highest, self.reached = highest, watermark_text(highest)
        return wanted

    def _texts(self, column: ArrowTable) -> NDArray[np.bool_]:
        values = column.to_pylist()
        if self._highest is None:
            first = self._since or next((value for value in values if value), "")
            if not first:
                return np.ones(len(values), np.bool_)
            self._highest = _sortable(first, number=bool(_NUMBER.fullmatch(first)))
        number = isinstance(self._highest, Decimal)
        since = _sortable(self._since, number=number) if self._since else None
        wanted = np.ones(len(values), np.bool_)
        for at, value in enumerate(values):
            found = _sortable(value, number=number) if value else None
            if found is None:
                continue
            wanted[at] = since is None or found >= since
            if found > self._highest or not self.reached:
                self._highest, self.reached = max(found, self._highest), value
        return wanted


def _sortable(text: str, *, number: bool) -> Any:
    """What a text is compared by, None where it is no number and numbers are compared."""
    if not number:
        return text
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _scalar(value: Any, kind: Any) -> Any:
    pa = require("pyarrow", "records", "reading records")
    if isinstance(value, Decimal) and not pa.types.is_decimal(kind):
        value = float(value)
    return pa.scalar(value) if isinstance(value, float) else pa.scalar(value, kind)
