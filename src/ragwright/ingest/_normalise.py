"""Bytes to text, and text to the one form that spans point into."""

from __future__ import annotations

import codecs
import datetime
import re
import unicodedata
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..core import (
    GROUPS,
    ConfigError,
    EmptySourceError,
    MetaValue,
    UnsupportedSourceError,
    meta_value,
)

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_BROKEN = re.compile("[\ud800-\udfff\ufffe\uffff]")

_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def normalise(text: str) -> str:
    r"""Return text in the form of ``Document.text``; doing it twice changes nothing.

    Line ends become ``\n`` (also form feeds and Unicode's line and paragraph separators),
    control characters, byte order marks, soft hyphens and directional marks are removed (they are
    invisible and break words for a search), lone surrogates become U+FFFD, and the rest is composed
    (NFC). Tabs, spaces and joiners stay. Linear in the length.
    """
    text = _BREAKS.sub("\n", text)
    text = _DROPPED.sub("", text)
    text = _BROKEN.sub("\ufffd", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def is_binary(data: bytes) -> bool:
    """Return True if bytes are not text in any common encoding: zeros, or many controls."""
    if data.startswith(tuple(mark for mark, _ in _MARKS)) or _wide(data):
        return False
    controls = len(data) - len(data.translate(None, _CONTROL_BYTES))
    return b"\0" in data[:65536] or controls > len(data) * 0.005


def decode(data: bytes, where: str, encoding: str = "") -> tuple[str, str]:
    """Decode a file; returns the text and the name of its encoding.

    Without ``encoding``: a byte order mark decides, then UTF-8, then UTF-16 by its zeros;
    a file that is mostly right UTF-8 keeps its good characters and gets U+FFFD for the bad
    bytes; what is left is Windows-1252, then Latin-1, where every byte is valid.

    Raises:
        ConfigError: ``encoding`` is not a known encoding.
        EmptySourceError: No bytes at all.
        UnsupportedSourceError: The bytes are not text, or not in the given ``encoding``.
    """
    if not data:
        raise EmptySourceError("the file is empty", where=where, hint="remove it or fill it")
    if encoding:
        return _decode_as(data, where, encoding), encoding
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace"), name.removesuffix("-sig")
    wide = _wide(data)
    if wide:
        return data.decode(wide, "replace"), wide
    if is_binary(data):
        raise UnsupportedSourceError(
            "the file is neither text nor a known document format",
            where=where,
            hint="leave it out with `exclude`, or convert it to a format with text",
        )
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return _salvage(data)


def _salvage(data: bytes) -> tuple[str, str]:
    """Decode a file that is not quite UTF-8: repaired if most of it is, else one-byte."""
    repaired = data.decode("utf-8", "replace")
    bad = repaired.count("\ufffd")
    good = len(repaired) - sum(map(len, re.findall(r"[\x00-\x7f]+", repaired))) - bad
    if good >= 2 * bad:
        return repaired, f"utf-8 with {bad} invalid"
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _decode_as(data: bytes, where: str, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except LookupError as error:
        raise ConfigError(
            f"unknown encoding {encoding!r}", hint="for example utf-8, cp1252, utf-16, shift_jis"
        ) from error
    except UnicodeDecodeError as error:
        raise UnsupportedSourceError(
            f"the file is not {encoding}: {error.reason} at byte {error.start}",
            where=where,
            hint="leave `encoding` empty to have it detected",
        ) from error


def _wide(data: bytes) -> str:
    """Detect UTF-16 without a byte order mark, by zeros in every second byte."""
    sample = data[:4096]
    sample = sample[: len(sample) // 2 * 2]
    if len(sample) < 8:
        return ""
    even, odd = sample[::2], sample[1::2]
    if odd.count(0) > 0.7 * len(odd) and not even.count(0):
        return "utf-16-le"
    if even.count(0) > 0.7 * len(even) and not odd.count(0):
        return "utf-16-be"
    return ""


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
        if re.search(r"[A-Za-z]{3}", text):
            return _mail_date(text)
    except ValueError:
        return ""
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


def _mail_date(text: str) -> str:
    try:
        return parsedate_to_datetime(text).isoformat()
    except (TypeError, ValueError, IndexError):
        return ""
