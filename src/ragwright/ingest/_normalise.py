"""Text in the one form that spans point into, metadata and dates."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..core import GROUPS, MetaValue, meta_value

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_DATA = re.compile(
    r"\bdata:([\w.+-]+/[\w.+-]+)(?:;[\w.=+-]+)*,"
    r"(?:[A-Za-z0-9+/=_-]{64,}(?:\n[ \t]*[A-Za-z0-9+/=]{40,})*(?:\n[ \t]*[A-Za-z0-9+/]+={1,2})?"
    r"|[^\s\"'<>()\\…]{64,})"
)
LEFT_OUT = ",…"
"""What stands for the content of a ``data:`` address."""
_BROKEN = re.compile("[\ud800-\udfff\ufffe\uffff]")


def normalise(text: str) -> str:
    r"""Return text in the form of ``Document.text``; doing it twice changes nothing.

    Line ends become ``\n`` (also form feeds and Unicode's line and paragraph separators),
    control characters, byte order marks, soft hyphens and directional marks are removed (they are
    invisible and break words for a search), lone surrogates become U+FFFD, and the rest is composed
    (NFC). Tabs, spaces and joiners stay. Of a file in a ``data:`` address only the type stays.
    Linear in the length.
    """
    text = _BREAKS.sub("\n", text)
    if "data:" in text:
        text = _DATA.sub(rf"data:\1{LEFT_OUT}", text)
    text = _DROPPED.sub("", text)
    text = _BROKEN.sub("\ufffd", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def clean_metadata(values: Mapping[str, Any]) -> dict[str, MetaValue]:
    """Reduce metadata to what filters can use: scalars and tuples of strings, none empty.

    Names become ``lower_case``; dates ISO 8601; nested tables are left out. Groups of readers that
    are no texts become an empty tuple, which is refused later: left out, they would open the
    document to everyone.
    """
    cleaned: dict[str, MetaValue] = {}
    for key, value in values.items():
        name = re.sub(r"\W+", "_", normalise(str(key))).strip("_").lower()
        cleaned_value = meta_value(value, normalise)
        if name == GROUPS and value not in (None, ""):
            items = [value] if isinstance(value, str) else value
            readable = isinstance(items, list | tuple) and all(isinstance(i, str) for i in items)
            cleaned[name] = cleaned_value if readable and cleaned_value is not None else ()
            continue
        if name and cleaned_value not in (None, "", ()):
            cleaned[name] = cleaned_value
    return cleaned


_PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-]\d\d)'?(\d\d)?|Z)?")


def iso_date(value: Any) -> str:
    """Convert a date as documents write it to ISO 8601; empty if it cannot be read.

    Knows date objects, ISO 8601, PDF (``D:20240131…``) and mail (RFC 5322) spellings.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = str(value or "").strip()
    match = _PDF_DATE.match(text)
    try:
        if match:
            return _pdf_date(match)
        if re.fullmatch(r"\d{4}(-\d\d)?", text):
            return text
        if re.match(r"\d{4}-?\d\d-?\d\d", text):
            whole = datetime.datetime.fromisoformat(text)
            return text[:10] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else whole.isoformat()
        return parsedate_to_datetime(text).isoformat() if re.search("[A-Za-z]{3}", text) else ""
    except (TypeError, ValueError, IndexError):
        return ""


def _pdf_date(match: re.Match[str]) -> str:
    year, month, day, hour, minute, second, zone, zone_minutes = match.groups()
    date = datetime.date(int(year), int(month or 1), int(day or 1)).isoformat()
    if hour is None:
        return date[: 10 if day else 7 if month else 4]
    time = datetime.time(int(hour), int(minute or 0), int(second or 0)).isoformat()
    if match[0].endswith("Z") or (zone in ("+00", "-00") and zone_minutes in (None, "00")):
        zone, zone_minutes = "+00", "00"
    return f"{date}T{time}" + (f"{zone}:{zone_minutes or '00'}" if zone else "")
