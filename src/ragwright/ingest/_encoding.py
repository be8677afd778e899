"""Bytes to text: by mark, by what the file states, as UTF-8, else by a guess that says so."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import charset_normalizer

from ..core import (
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)
from ._language import guess_language

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
_SAMPLE = 32_768

_EAST = {
    "cp932": ("euc_jp", 0xCF), "euc_jp": ("euc_jp", 0xCF), "cp949": ("euc_kr", 0xC8),
    "gb18030": ("gb2312", 0xD7), "big5hkscs": ("big5", 0xC6),
}  # fmt: skip
"""Encoding -> the standard that sorts its characters by use, and the last row of the usual ones."""
_WEST = {
    "cp1252": 0.06, "cp1250": 0.03, "iso8859_2": 0.0, "cp1254": 0.03, "mac_roman": 0.02,
    "cp850": 0.0, "cp852": 0.0,
}  # fmt: skip
"""Encoding of a part of Europe -> how much likelier it is than the others, text unseen."""
_CYRILLIC = ("оеаинтсрвлкмдіъ", "бгжзйпуфхцчшщыьэюяёїєґў")
_GREEK = ("αοιετσνηυρπκμλςάίόέή", "βγδζθξφχψωύώϊϋΐΰ")
_ARABIC = ("اليمونرتبةدعسفك", "ءآأؤإئثجحخذزشصضطظغقهىپچژگًٌٍَُِّْ")
_HEBREW = ("יוהלאמתרבשנ", "גדזחטכךםןסעפףצץק\u05b0\u05b4\u05b7\u05b8\u05bc")
_THAI = ("านรกอเงวยมลทตสดปัี่้ิ", "".join(map(chr, range(0xE01, 0xE5B))))
_SCRIPTS = {
    "cp1251": _CYRILLIC, "koi8_u": _CYRILLIC, "cp866": _CYRILLIC, "iso8859_5": _CYRILLIC,
    "mac_cyrillic": _CYRILLIC, "cp1253": _GREEK, "iso8859_7": _GREEK, "cp1255": _HEBREW,
    "cp1256": _ARABIC, "iso8859_6": _ARABIC, "cp874": _THAI,
}  # fmt: skip
"""Encoding of a script -> letters that make most of a text in it, and its other letters."""
_CODE_PAGES = (*_EAST, *_WEST, *_SCRIPTS)
_LETTERS = {
    "de": "äöüß", "fr": "àâçèéêëîïôùûœ", "es": "áéíóúüñ", "pt": "áâãàçéêíóôõú", "it": "àèéìíòù",
    "sv": "åäöé", "da": "æøåé", "nl": "ëïéèöüó", "is": "áéíóúýðþæö", "pl": "ąćęłńóśźż",
    "cs": "áčďéěíňóřšťúůýž", "sk": "áäčďéíĺľňóôŕšťúýž", "hu": "áéíóöőúüű", "ro": "ăâîşţșț",
    "hr": "čćđšž", "tr": "çğıi̇öşü", "et": "õäöüšž",
}  # fmt: skip
"""Language -> its letters beyond ASCII."""
_WIDE_BLOCK = {**dict.fromkeys(range(0x4E, 0xA0), 0x4E), **dict.fromkeys(range(0xAC, 0xD8), 0xAC)}
_PAGE_OF = {"big5": "big5hkscs", "koi8_r": "koi8_u"}
_INSIDE = frozenset("’·‑\u00ad'")
_SIGNS = frozenset("‘’“”„‚«»‹›–—…•·°§€£¢¥©®™±×÷µ½¼¾²³¹¿¡№†‰ºª\u00a0\u00ad¬¶")


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
    if shift and _decodes(data, shift):
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
    if _decodes(data, "utf-8"):
        return Decoded(data.decode("utf-8"), "utf-8")
    for name in map(_known, stated):
        if name and name != "utf-8" and _decodes(data, name):
            return Decoded(data.decode(name), name)
    return _mended(data, where) or _guessed(data, where, next(filter(None, stated), ""))


def _decode_as(data: bytes, where: str, encoding: str) -> str:
    try:
        if codecs.lookup(encoding).name == "iso8859-1" and _decodes(data, "cp1252"):
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
    faults = (_lost(where, lost, name),) if lost else ()
    return Decoded(text, name.removesuffix("-sig"), faults)


def _lost(where: str, count: int, name: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"{count} characters are not in the encoding {name}: each is read as \ufffd",
        where=where,
        hint="set `encoding` of the source if it is another",
    )


def _known(stated: str) -> str:
    """Return Python's name of a stated encoding, of the superset that files are in; or nothing."""
    stated = stated.strip().lower()
    try:
        name = codecs.lookup(_WIDER.get(stated, stated)).name
    except (LookupError, ValueError):
        return ""
    return _BROWSERS.get(name, name)


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except (LookupError, UnicodeError):
        return False
    return True


def _mended(data: bytes, where: str) -> Decoded | None:
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


def _guessed(data: bytes, where: str, stated: str) -> Decoded:
    """Read by the likeliest of the code pages: by how usual its letters are, then by measure.

    `charset_normalizer` alone takes short texts of Western Europe for Swedish or Polish.
    """
    sample = _sample(data)
    language = guess_language(sample.decode("ascii", "ignore"))
    measured = charset_normalizer.from_bytes(sample, cp_isolation=list(_CODE_PAGES))
    places = {
        _PAGE_OF.get(same, same): place
        for place, match in enumerate(measured)
        for same in match.could_be_from_charset
    }
    scores = {
        name: _plausible(sample.decode(name), name, language)
        + _WEST.get(name, 0.0)
        - 0.01 * min(places.get(name, 5), 5)
        for name in _CODE_PAGES
        if _decodes(sample, name)
    } or {"cp1252": 0.0}
    ranked = sorted(scores, key=lambda name: -scores[name])
    name = next((name for name in ranked if _decodes(data, name)), ranked[0])
    text = data.decode(name, "replace")
    lost = text.count("\ufffd")
    said = f" although it states the encoding {stated}" if stated else ""
    fault = MalformedSourceError(
        f"not UTF-8{said}: read in the encoding {name}, a guess "
        f"(confidence {_certainty(scores[name], text):.0%})"
        + (f"; {lost} characters are not in it" if lost else ""),
        where=where,
        hint="if letters are wrong, set `encoding` of the source",
    )
    return Decoded(text, name, (fault,))


def _certainty(score: float, text: str) -> float:
    """Return a score as a probability: a text with few letters beyond ASCII fits many encodings."""
    odd = sum(map(len, re.findall(r"[^\x00-\x7f]+", text[:_SAMPLE])))
    return min(max(score, 0.0), 1.0) * (odd + 1) / (odd + 2)


def _sample(data: bytes) -> bytes:
    """Return lines with bytes beyond ASCII; a line that is cut ends with an ASCII byte."""
    lines: list[bytes] = []
    room = _SAMPLE
    for match in re.finditer(rb"[^\n]*[\x80-\xff][^\n]*", data):
        line = match[0]
        if len(line) > room:
            line = re.sub(rb"[^\x00-\x3f]*\Z", b"", line[:room]) or line[:room]
        lines.append(line)
        room -= len(line)
        if room <= 0:
            break
    return b"\n".join(lines)


def _plausible(text: str, name: str, language: str) -> float:
    """Return how usual the characters beyond ASCII of a text are in its encoding, from 0 to 1.

    ``language`` is that of its common words, if they are in one: its letters count double.
    """
    odd = [(at, c) for at, c in enumerate(text) if c > "\x7f"]
    if not odd:
        return 0.0
    if name in _EAST:
        return sum(_usual_east(c, name) for _, c in odd) / len(odd)
    letters = [(at, c) for at, c in odd if c.isalpha() or unicodedata.category(c) == "Mn"]
    signs = [(at, c) for at, c in odd if not (c.isalpha() or unicodedata.category(c) == "Mn")]
    right = sum(c in _SIGNS and (c in _INSIDE or not _within(text, at)) for at, c in signs)
    if name in _WEST:
        lower = Counter(c.lower()[0] for at, c in letters if not _raised(text, at))
        fits = {
            key: sum(n for c, n in lower.items() if c in known) for key, known in _LETTERS.items()
        }
        best = max(fits.values())
        return (right + ((best + fits[language]) / 2 if language in fits else best)) / len(odd)
    common, rare = _SCRIPTS[name]
    small = [c.lower() for at, c in letters if not _raised(text, at) and not _mixed(text, at)]
    usual = sum(c in common for c in small)
    own = usual + sum(c in rare for c in small)
    fit = min(1.0, usual / (0.6 * max(1, len(letters)))) * own / (2 if language in _LETTERS else 1)
    if sum(c.isascii() and c.isalpha() for c in text) > 10 * len(letters):
        fit *= 0.9
    if common in (_CYRILLIC[0], _GREEK[0]) and not any(c.isupper() for _, c in letters):
        fit *= 0.8
    return (right + fit) / len(odd)


def _usual_east(character: str, name: str) -> float:
    standard, last = _EAST[name]
    if name == "gb18030" and "\u3040" < character < "\u30ff":
        return 0.0
    if name == "cp949" and "\u4e00" <= character <= "\u9fff":
        return 0.3
    try:
        row, *rest = character.encode(standard)
    except UnicodeEncodeError:
        return 0.0
    return 1.0 if len(rest) == 1 and 0xA1 <= row <= last else 0.3


def _within(text: str, at: int) -> bool:
    """Return True for a sign with letters on both sides."""
    return text[at - 1 : at].isalpha() and text[at + 1 : at + 2].isalpha()


def _mixed(text: str, at: int) -> bool:
    """Return True for a letter beside one of ASCII."""
    return any(c.isascii() and c.isalpha() for c in (text[at - 1 : at], text[at + 1 : at + 2]))


def _raised(text: str, at: int) -> bool:
    """Return True for a capital letter after a small one."""
    return text[at].isupper() and text[at - 1 : at].islower()


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
    return next((name for _, name in shares if _is_prose(_sixteen(sample, name))), "")


def _sixteen(sample: bytes, name: str) -> str:
    return sample.decode(name, "ignore" if len(sample) == 4096 else "replace")


def _is_prose(text: str) -> bool:
    good = sum(_printed(character) for character in text)
    blocks = {_WIDE_BLOCK.get(ord(c) >> 8, ord(c) >> 8) for c in text}
    return good >= 0.98 * len(text) and len(blocks) <= 6


def _printed(character: str) -> bool:
    if character in "\t\n\r\x0c":
        return True
    kind = unicodedata.category(character)
    return kind[0] != "C" and character != "\ufffd"
