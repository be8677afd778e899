"""Watermarks: rows at or above the highest value that was met before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._seams import ArrowTable, RowSource
from ._batches import RowBatch, cut_batches


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
        pa = require("pyarrow", "records", "reading records")
        compute = require("pyarrow.compute", "records", "reading records")
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
