from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ragwright.core import retry_after

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12),
        (" 0.5 ", 0.5),
        ("-3", 0),
        ("Mon, 04 May 2026 10:00:30 GMT", 30),
        ("Mon, 04 May 2026 10:00:30 -0000", 30),
        ("Mon, 04 May 2026 09:00:00 GMT", 0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, NOW) == seconds
