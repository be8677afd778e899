"""Filters as typed: ``party=D``, ``topic!=health|tax``, ``year=2019..2021``."""

from __future__ import annotations

import math
import re

from ..core import Filter, FilterError, prefix_filter
from ._options import SoftFilterOptions

_BOUNDS = re.compile(r"(?P<low>.*[^./|])?\.\.(?P<high>[^./|].*)?", re.DOTALL)
"""Two dots without a further dot, slash or bar next to them: not ``../a``, ``Wait...``, ``..``."""


def parse_filter(text: str) -> Filter:
    """A hard filter from a text.

    ``field=value``, ``field=value|value`` for any of several, ``field=low..high`` for inclusive
    bounds, one of which may be missing, ``field=start*`` for values that begin so; other uses of
    ``|``, ``..`` or ``*`` are plain values. ``!=`` in
    place of ``=`` excludes: hits must not match. ``field=*`` is any value, ``field!=*`` none: the
    field is missing. Values are compared as text, so that ``2021`` also
    matches the number, and ``true`` the boolean.

    Raises:
        FilterError: The text is of another form, or the field's name ends in ``!``.
    """
    field, sign, value = text.partition("=")
    exclude = field.rstrip().endswith("!")
    field, value = field.strip().removesuffix("!").rstrip(), value.strip()
    if not (field and sign and value):
        raise FilterError(
            f"cannot read {text!r} as a filter",
            hint="write field=value, field=value|value, field=low..high or field=start*; != "
            "excludes, and field!=* asks for what lacks the field",
        )
    bounds = _BOUNDS.fullmatch(value) if value.count("..") == 1 and "|" not in value else None
    low, high = (bounds["low"] or "", bounds["high"] or "") if bounds else ("", "")
    if low.strip() or high.strip():
        return Filter(field, (), low.strip() or None, high.strip() or None, exclude)
    if value.endswith("*") and "|" not in value:
        return prefix_filter(field, value[:-1], exclude=exclude)
    values = tuple(part.strip() for part in value.split("|") if part.strip())
    return Filter(field, values, exclude=exclude)


def parse_soft_filter(text: str) -> SoftFilterOptions:
    """A soft filter: a filter with its weight behind a caret, ``lang!=fr^3``; 1 without.

    Raises:
        FilterError: The text is of another form, or the weight is not a number from 0.
    """
    condition, caret, weight = text.rpartition("^")
    if not caret:
        condition, weight = text, "1"
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise FilterError(
            f"the weight {weight!r} of {condition!r} must be a number of at least 0",
            hint="write field=value^3",
        )
    condition_read = parse_filter(condition)
    return SoftFilterOptions(
        condition_read.field,
        condition_read.values,
        condition_read.low,
        condition_read.high,
        number,
        condition_read.exclude,
    )
