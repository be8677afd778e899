"""The distance below the highest watermark at which a reading begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from ...core import RecordsError

_LAG = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw]?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Lag:
    """The distance below the highest watermark at which a reading begins, for late rows.

    Attributes:
        amount: Time, or a number; None for none.
        text: As it was written.
        where: Where it was written.
    """

    amount: timedelta | Decimal | None = None
    text: str = ""
    where: str = ""

    @classmethod
    def parsed(cls, text: str, where: str = "") -> Lag:
        """The lag in a text: a number, or a number and one of s, m, h, d, w.

        Raises:
            RecordsError: It has another form.
        """
        match = _LAG.fullmatch(text.strip())
        if not text.strip():
            return cls()
        try:
            if not match:
                raise ValueError(text)
            number = Decimal(match[1])
            amount = timedelta(seconds=float(number) * _SECONDS[match[2]]) if match[2] else number
        except (ValueError, OverflowError) as error:
            raise RecordsError(
                f"{text!r} is not a watermark lag",
                where=where,
                hint="write 90m, 12h or 2d for times (s, m, h, d, w), a number for numbers",
            ) from error
        return cls(amount, text, where)
