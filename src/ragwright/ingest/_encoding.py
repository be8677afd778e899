"""Bytes to text: by mark, by what the file states, as UTF-8, else by a guess that says so."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import chardet

from ..core import (
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)

_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHIFTS = (
    (re.compile(rb"\x1b\$(?:[@B]|\([DOPQ])"), "iso2022_jp_2"),
    (re.compile(rb"\x1b\$\)C"), "iso2022_kr"),
)
_BROWSERS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "shift_jis": "cp932",
    "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "tis-620": "cp874",
    "iso8859-11": "cp874", "big5": "big5hkscs",
}  # fmt: skip
"""Stated encoding -> its superset that browsers read instead, and that files are really in."""
_WIDER = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-mac-roman": "mac_roman", "x-big5": "big5hkscs"}
_CODE_PAGES = (
    "cp932", "euc-jp", "cp949", "gb18030", "big5hkscs", "cp1250", "iso8859-2", "cp1252", "cp1254",
    "mac-roman", "cp850", "cp852", "cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5",
    "mac-cyrillic", "cp1253", "iso8859-7", "cp1255", "cp1256", "iso8859-6", "cp874",
)  # fmt: skip
_WEAK = 0.12
"""Below this confidence, Windows-1252 is tried first."""
_NOT_WINDOWS = re.compile(
    r"(?<=[^\W\d_])[^\x00-\x7f\w’\xad](?=[^\W\d_])|(?<=[a-z])[¢£¤‚ˆ‡¦§šžŠŽŸÀ-ÖØ-Þ]|[¢¤ˆ‡¦§šŸ](?=[a-z])"
)
"""Signs within words, or capitals after small letters, of a text read as cp1252 that is not."""
_WIDE_BLOCK = {**dict.fromkeys(range(0x4E, 0xA0), 0x4E), **dict.fromkeys(range(0xAC, 0xD8), 0xAC)}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text and encoding; ``faults`` says what was guessed, or could not be read."""

    text: str
    encoding: str
    faults: tuple[RagwrightError, ...] = ()

    @property
    def unusual(self) -> str:
        """The encoding, for metadata; empty for UTF-8."""
        return "" if self.encoding == "utf-8" else self.encoding


def is_binary(data: bytes) -> bool:
    """Return True if bytes are not text in any common encoding: zeros, or many controls."""
    if data.startswith(tuple(mark for mark, _ in _MARKS)):
        return False
    return _has_controls(data) and not _wide(data)


def decode(data: bytes, where: str, encoding: str = "", stated: Sequence[str] = ()) -> Decoded:
    """Decode a file by a setting, its mark, UTF-8, what it states, or a guess.

    A text that is UTF-8 is hardly ever anything else, so it goes before what a file states.
    Single bytes that break UTF-8 are read as Windows-1252; what no encoding has becomes U+FFFD.
    All of it is said in ``faults``.

    Args:
        data: The whole file.
        where: Its id, for errors.
        encoding: The setting.
        stated: What the file, its container or its server states, the surest first.

    Raises:
        ConfigError: ``encoding`` is not a known encoding.
        EmptySourceError: No bytes at all.
        UnsupportedSourceError: The bytes are not text, or not in the given ``encoding``.
    """
    if not data:
        raise EmptySourceError("the file is empty", where=where, hint="remove it or fill it")
    if encoding:
        return Decoded(_decode_as(data, where, encoding), encoding)
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if mark:
        return _read(data, where, mark)
    shift = next((name for pattern, name in _SHIFTS if pattern.search(data)), "")
    if shift and decodes(data, shift):
        return _read(data, where, shift)
    if _has_controls(data):
        wide = _wide(data)
        if not wide:
            raise UnsupportedSourceError(
                "the file is neither text nor a known document format",
                where=where,
                hint="leave it out with `exclude`, or convert it to a format with text; for text, "
                "set `encoding` of the source",
            )
        return _read(data, where, wide)
    if decodes(data, "utf-8"):
        return Decoded(data.decode("utf-8"), "utf-8")
    for name in map(_known, stated):
        if name and name != "utf-8" and decodes(data, name):
            return Decoded(data.decode(name), name)
    return _mend(data, where) or _guess(data, where, next(filter(None, stated), ""))


def _decode_as(data: bytes, where: str, encoding: str) -> str:
    try:
        if codecs.lookup(encoding).name == "iso8859-1" and decodes(data, "cp1252"):
            return data.decode("cp1252")  # has signs that Latin-1 lacks, and is called so as well
        return data.decode(encoding)
    except LookupError as error:
        raise ConfigError(
            f"unknown encoding {encoding!r}", hint="for example utf-8, cp1252, utf-16, shift_jis"
        ) from error
    except UnicodeError as error:
        raise UnsupportedSourceError(
            f"the file is not {encoding}: {error}",
            where=where,
            hint="leave `encoding` empty to have it detected",
        ) from error


def _read(data: bytes, where: str, name: str) -> Decoded:
    text = data.decode(name, "replace")
    lost = text.count("\ufffd")
    fault = MalformedSourceError(
        f"{lost} characters are not in the encoding {name}: each is read as \ufffd",
        where=where,
        hint="set `encoding` of the source if it is another",
    )
    return Decoded(text, name.removesuffix("-sig"), (fault,) if lost else ())


def _known(stated: str) -> str:
    """Return Python's name of a stated encoding, of the superset that files are in; or nothing."""
    stated = stated.strip().lower()
    try:
        name = codecs.lookup(_WIDER.get(stated, stated)).name
    except (LookupError, ValueError):
        return ""
    return _BROWSERS.get(name, name)


def decodes(data: bytes, name: str) -> bool:
    """Return True if bytes are text in an encoding of this name."""
    try:
        data.decode(name)
    except (LookupError, UnicodeError):
        return False
    return True


def _mend(data: bytes, where: str) -> Decoded | None:
    """Read a text that is mostly UTF-8: its other bytes one by one, as Windows-1252."""
    repaired = data.decode("utf-8", "replace")
    bad = repaired.count("\ufffd")
    good = len(repaired) - sum(map(len, re.findall(r"[\x00-\x7f]+", repaired))) - bad
    if good < 2 * bad:
        return None
    text = re.sub(
        "[\udc80-\udcff]",
        lambda match: bytes([ord(match[0]) - 0xDC00]).decode("cp1252", "replace"),
        data.decode("utf-8", "surrogateescape"),
    )
    fault = MalformedSourceError(
        f"{bad} places are not in the encoding UTF-8 of the rest: read as cp1252",
        where=where,
        hint="save the file as UTF-8, or set `encoding` of the source",
    )
    return Decoded(text, f"utf-8 with {bad} invalid", (fault,))


def _guess(data: bytes, where: str, stated: str) -> Decoded:
    """Read by the likeliest code page.

    A short text of Western Europe fits several: Windows' own goes first where it reads as words.
    """
    telling = b"\n".join(re.findall(rb"[^\n]*[\x80-\xff][^\n]*", data))
    found = chardet.detect_all(telling, ignore_threshold=True, include_encodings=_CODE_PAGES)
    sure = {_known(match["encoding"] or ""): match["confidence"] for match in found}
    names = [name for name in sure if name and decodes(data, name)] or ["cp1252"]
    weak = sure.get(names[0], 0.0) < _WEAK and names[0] not in _CODE_PAGES[:5]
    if "cp1252" in names and (weak or names[0] in ("mac-roman", "cp850")):
        names = ["cp1252"] * (not _NOT_WINDOWS.search(data.decode("cp1252"))) + names
    text = data.decode(names[0], "replace")
    lost = text.count("\ufffd")
    said = f" although it states the encoding {stated}" if stated else ""
    fault = MalformedSourceError(
        f"not UTF-8{said}: read in the encoding {names[0]}, a guess "
        f"(confidence {sure.get(names[0], 0.0):.0%})"
        + (f"; {lost} characters are not in it" if lost else ""),
        where=where,
        hint="if letters are wrong, set `encoding` of the source",
    )
    return Decoded(text, names[0], (fault,))


def _has_controls(data: bytes) -> bool:
    controls = len(data) - len(data.translate(None, _CONTROL_BYTES))
    return b"\0" in data[:65536] or controls > len(data) * 0.005


def _wide(data: bytes) -> str:
    """Detect UTF-16 without a mark; its bytes have zeros or control bytes among them."""
    sample = data[:4096]
    sample = sample[: len(sample) // 2 * 2]
    if len(sample) < 8 or len(data) % 2:
        return ""
    halves = (("utf-16-be", sample[::2]), ("utf-16-le", sample[1::2]))
    shares = sorted(
        ((Counter(high).most_common(1)[0][1], name) for name, high in halves), reverse=True
    )
    return next((name for _, name in shares if _is_prose(sample, name)), "")


def _is_prose(sample: bytes, name: str) -> bool:
    """Return True for printed characters of few blocks."""
    text = sample.decode(name, "ignore" if len(sample) == 4096 else "replace")
    blocks = {_WIDE_BLOCK.get(ord(c) >> 8, ord(c) >> 8) for c in text}
    good = sum(c in "\t\n\r\x0c" or unicodedata.category(c)[0] != "C" for c in text)
    return good - text.count("\ufffd") >= 0.98 * len(text) and len(blocks) <= 6
