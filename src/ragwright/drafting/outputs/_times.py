"""Times in the format of the table of outputs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ...core import ConfigError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def now_utc() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Format a time for the table: ISO 8601, UTC, milliseconds; sorts as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{moment.microsecond // 1000:03d}Z"
    )


def moment(text: str) -> str:
    """Convert a typed time to the table's format.

    Forms are ``2026-11-01`` (local midnight), an ISO 8601 date and time, or a duration before now:
    ``90m``, ``24h``, ``7d``, ``2w``.

    Raises:
        ConfigError: It has another form.
    """
    unit, number = text[-1:], text[:-1]
    try:
        if unit in _UNITS and number.isdecimal():
            return timestamp(now_utc() - timedelta(**{_UNITS[unit]: int(number)}))
        return timestamp(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text!r} is not a time",
            where="--since",
            hint="write 2026-11-01, 2026-11-01T08:30, or how long ago: 24h, 7d",
        ) from error
