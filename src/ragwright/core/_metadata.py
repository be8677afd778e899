"""Values as metadata may hold them, so that filters can use them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._records import MetaValue


def meta_value(value: Any, text: Callable[[str], str] = str) -> MetaValue | None:
    """A scalar, or a tuple of strings; None for anything else, such as a nested table.

    Dates become ISO 8601; white space is reduced to single spaces.

    Args:
        value: What was read.
        text: Cleans a string first.
    """
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return " ".join(text(value).split())
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        scalars = (item for item in value if isinstance(item, str | int | float | datetime.date))
        items = [meta_value(item, text) for item in scalars]
        return tuple(str(item) for item in items if item not in (None, ""))
    return None
