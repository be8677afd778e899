"""Parsing of HTTP response headers."""

from __future__ import annotations

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after(text: str | None, now: float | None = None) -> float | None:
    """Seconds that a ``Retry-After`` asks to wait, written as a number or as a date (RFC 9110).

    Args:
        text: The header, None where there is none.
        now: Seconds since 1970 that a date is counted from; the present by default.

    Returns:
        Seconds, 0 or more and finite; None if the header cannot be parsed.
    """
    text = (text or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = date.timestamp() - (time.time() if now is None else now)
    return max(0.0, seconds) if math.isfinite(seconds) else None
