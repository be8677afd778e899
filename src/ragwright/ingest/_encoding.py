"""Bytes: their format, text and encoding; text in one form, its dates and its language."""

from __future__ import annotations

import codecs
import datetime
import io
import itertools
import operator
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import chardet

from ..core import (
    GROUPS,
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    MetaValue,
    RagwrightError,
    UnsupportedSourceError,
    meta_value,
)

_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_SHAPED = re.compile("utf-(?:8-sig|16|32)|iso-?2022", re.IGNORECASE)
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
    return _has_controls(data) and not _shape(data)


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
    controls = _has_controls(data)
    if (
        controls
        or data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        or b"\x1b$" in data
    ):
        if shape := _shape(data):
            return _read(data, where, shape)
        if controls:
            raise UnsupportedSourceError(
                "the file is neither text nor a known document format",
                where=where,
                hint="leave it out with `exclude`, or convert it to a format with text; for text, "
                "set `encoding` of the source",
            )
    if decodes(data, "utf-8"):
        return Decoded(data.decode("utf-8"), "utf-8")
    for name in map(_known, stated):
        if name and name != "utf-8" and decodes(data, name):
            return Decoded(data.decode(name), name)
    return _mend(data, where) or _guess(data, where, next(filter(None, stated), ""))


def _decode_as(data: bytes, where: str, encoding: str) -> str:
    try:
        superset = _known(encoding)  # files are called Latin-1 that have signs of cp1252
        return data.decode(superset if decodes(data, superset) else encoding)
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
    weak = sure.get(names[0], 0.0) < 0.12 and names[0] not in _CODE_PAGES[:5]
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


def _shape(data: bytes) -> str:
    """Return the encoding that a mark, zeros or shifts show: of Unicode, or of ISO 2022."""
    name = (chardet.detect(data)["encoding"] or "").lower()
    shaped = [name] if _SHAPED.match(name) else []
    if shaped and not name.endswith(("-le", "-be")):
        return name
    names = [*shaped, "utf-16-le", "utf-16-be"] if len(data) % 2 == 0 and len(data) > 7 else []
    return next((name for name in names if _is_prose(data[:4096], name)), "")


def _is_prose(sample: bytes, name: str) -> bool:
    """Return True for printed characters of few blocks."""
    text = sample.decode(name, "ignore" if len(sample) == 4096 else "replace")
    blocks = {_WIDE_BLOCK.get(ord(c) >> 8, ord(c) >> 8) for c in text}
    good = sum(c in "\t\n\r\x0c" or unicodedata.category(c)[0] != "C" for c in text)
    return good - text.count("\ufffd") >= 0.98 * len(text) and len(blocks) <= 6


SUFFIXES = {
    ".pdf": "pdf",
    ".docx": "docx", ".docm": "docx", ".dotx": "docx",
    ".pptx": "pptx", ".pptm": "pptx", ".ppsx": "pptx",
    ".xlsx": "sheet", ".xlsm": "sheet", ".xls": "sheet", ".ods": "sheet",
    ".odt": "odt", ".ott": "odt", ".odp": "odp",
    ".epub": "epub",
    ".html": "html", ".htm": "html", ".xhtml": "html",
    ".xml": "xml", ".tei": "xml", ".svg": "xml",
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown",
    ".csv": "csv", ".tsv": "csv",
    ".eml": "eml",
    ".mbox": "mbox", ".mbx": "mbox",
    ".ipynb": "notebook",
    ".png": "image", ".jpg": "image", ".jpeg": "image", ".tif": "image", ".tiff": "image",
    ".txt": "text", ".text": "text", ".log": "text", ".rst": "text",
}  # fmt: skip
"""Suffix -> format; for other names the content alone decides."""

NAMES = {
    "pdf": "a PDF", "docx": "a Word document", "pptx": "a PowerPoint file",
    "sheet": "a spreadsheet", "odt": "an OpenDocument text", "epub": "an EPUB book",
    "html": "an HTML page", "xml": "XML",
    "markdown": "Markdown", "csv": "a CSV table", "eml": "a mail",
    "mbox": "a mailbox",
    "notebook": "a notebook",
    "text": "plain text", "image": "an image", "locked": "an encrypted Office file",
    "doc": "an old Word document (.doc)", "ppt": "an old PowerPoint file (.ppt)",
    "rtf": "an RTF document", "msg": "an Outlook message (.msg)",
    "odp": "an OpenDocument presentation",
}  # fmt: skip

RARE = frozenset({"doc", "ppt", "rtf", "msg", "odp"})
"""Formats that only a parser of another package reads."""

BINARY = RARE | {"pdf", "docx", "pptx", "sheet", "odt", "epub", "image"}
"""Formats that cannot be plain text."""

_MAGIC = (
    (b"\x89PNG\r\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "image"),
    (b"MM\0*", "image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"{\\rtf", "rtf"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"OggS", "an Ogg recording"),
    (b"ID3", "an MP3 recording"),
    (b"%!PS", "a PostScript file"),
    (b"AT&TFORM", "a DjVu document"),
)
_HTML = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!doctype html|<html|<head|<body)", re.I | re.S
)
_HEADER = re.compile(rb"^([A-Za-z][A-Za-z-]*):[ \t]", re.M)
_HEADERS = frozenset({b"from", b"to", b"date", b"subject", b"message-id", b"received"})
_OLE = {
    name.encode("utf-16-le").ljust(64, b"\0"): kind
    for name, kind in {
        "EncryptedPackage": "locked", "__properties_version1.0": "msg", "WordDocument": "doc",
        "Workbook": "sheet", "Book": "sheet", "PowerPoint Document": "ppt",
    }.items()
}  # fmt: skip
"""Entry of the directory of an OLE file -> its kind."""
_MEMBERS = {
    "word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "sheet",
    "xl/workbook.bin": "a binary workbook (.xlsb)", "META-INF/container.xml": "epub",
}  # fmt: skip
_ODF = {
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.text-template": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "sheet",
    b"application/epub+zip": "epub",
}


def suffix_of(name: str) -> str:
    """Return the suffix of a file, or of an attachment, in lower case."""
    return Path(name.rpartition("#")[2] or name).suffix.lower()


def sniff(data: bytes, suffix: str = "") -> str:
    """Detect a format: a key of ``NAMES``, or a description of an unknown format.

    ``suffix`` decides only between the kinds of files within an old Office file and its own.
    ``text`` is any text that neither is HTML nor starts as XML does; ``""`` is binary data of no
    known kind.
    """
    head = data[:1024]
    if b"%PDF-" in head:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _sniff_zip(data)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        kinds = [kind for entry, kind in _OLE.items() if entry in data]
        own = SUFFIXES.get(suffix, suffix[1:])  # a file may hold files of other kinds
        return own if own in kinds else next(iter(kinds), "an old Office file")
    known = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
    if re.match(rb"(?s)RIFF.{4}(?:WEBP|WAVE|AVI )|.{4}ftyp", head):
        known = "an image, sound or film"
    if known or is_binary(data):
        return known
    start = head.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"")
    if _HTML.match(start):
        return "html"
    return "xml" if re.match(rb"(?i)\s*(<\?xml\b|<!DOCTYPE\s+(?!html\b))", start) else "text"


def sniff_mail(data: bytes) -> str:
    """Return ``mbox`` or ``eml`` for a text that begins as one of them does, else nothing."""
    if re.match(rb"From \S+ [^\n]*\d\d:\d\d[^\n]*\n>?[!-9;-~]+:", data[:4096]):
        return "mbox"
    names = {name.lower() for name in _HEADER.findall(data[:16_384].partition(b"\n\n")[0])}
    return "eml" if _HEADER.match(data) and len(names & _HEADERS) > 2 else ""


def is_element(data: bytes) -> bool:
    """Return True for a text that is one element of XML, from its first tag to its last."""
    first = re.match(rb"(?s)\s*(?:<!--.*?-->\s*)*<([A-Za-z_][\w:.-]*)[\s>]", data[:1024])
    return first is not None and data[-1024:].rstrip().endswith(b"</" + first[1] + b">")


def _sniff_zip(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                return _ODF.get(archive.read("mimetype").strip(), "a zip archive")
            return next((kind for n, kind in _MEMBERS.items() if n in names), "a zip archive")
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, NotImplementedError):
        return "a damaged zip archive"


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


def normalise(text: str) -> str:
    r"""Return text in the form of ``Document.text``; doing it twice changes nothing.

    Line ends become ``\n`` (also form feeds and Unicode's line and paragraph separators),
    control characters, byte order marks, soft hyphens and directional marks are removed (they are
    invisible and break words for a search), lone surrogates become U+FFFD, and the rest is composed
    (NFC). Tabs, spaces and joiners stay. Of a file in a ``data:`` address only the type stays.
    Linear in the length.
    """
    text = _DATA.sub(rf"data:\1{LEFT_OUT}", _BREAKS.sub("\n", text))
    text = _DROPPED.sub("", text)
    text = re.sub("[\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
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


def iso_date(value: Any) -> str:
    """Convert a date as documents write it to ISO 8601; empty if it cannot be read.

    Knows date objects, ISO 8601, PDF (``D:20240131…``) and mail (RFC 5322) spellings.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = str(value or "").strip()
    if text.startswith("D:"):
        text = re.sub("Z.*", "Z", text[2:].replace("'", ""))
        text = re.sub(r"^(\d{4})(\d\d)(\d\d)?", r"\1-\2-\3T", text).strip("T-")
    try:
        if re.fullmatch(r"\d{4}(-\d\d)?", text):
            return text
        if re.match(r"\d{4}-?\d\d-?\d\d", text):
            whole = datetime.datetime.fromisoformat(text)
            return text[:10] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else whole.isoformat()
        return parsedate_to_datetime(text).isoformat() if re.search("[A-Za-z]{3}", text) else ""
    except (TypeError, ValueError, IndexError):
        return ""


SUPERSCRIPTS = str.maketrans("0123456789+-\u2212()=ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾⁼ⁿⁱ")
"""For ``str.translate``: digits and signs to raised ones."""

_DOWN = str.maketrans("0123456789+-\u2212()=", "₀₁₂₃₄₅₆₇₈₉₊₋₋₍₎₌")
_PLAIN = re.compile(
    r"(?i)(?:st|nd|rd|th|er|re|e|ère|ème|ers|os?|as?|ter|te|tm|sm|mme|lle|me|le|ᵉ)\.?|[^\w+\-\u2212]+"
)
"""Raised text that is read as it is: endings of ordinals, signs such as ° and *."""
_MARK = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*")
_AFTER_WORD = re.compile(r"(?:[^\W\d_]{4,}|[^\W\d_]\)|[.,;:!?”\"»’\]])$")
"""What a number of a note stands after; after a shorter word it is an exponent: cm², Ca²."""

Raised = tuple[str, int]
"""A piece of text, and 1 if it is raised, -1 if it is lowered."""


def join_raised(pieces: Iterable[Raised]) -> str:
    """Join pieces of text; neighbours at the same height are one."""
    joined = ""
    for height, group in itertools.groupby(pieces, key=operator.itemgetter(1)):
        joined += spell_raised("".join(text for text, _ in group), joined, height)
    return joined


def spell_raised(text: str, before: str, height: int) -> str:
    """Return a piece as it is written after the text before it; ``height`` as in ``Raised``."""
    bare = text.strip()
    if not height or not bare or not before.strip() or "\n" in bare:
        return text
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if height > 0 and _PLAIN.fullmatch(bare):
        return text
    if height > 0 and _MARK.fullmatch(bare) and _AFTER_WORD.search(before):
        return f" {bare.translate(SUPERSCRIPTS)}{end}"
    small = bare.translate(SUPERSCRIPTS if height > 0 else _DOWN)
    if any(character.isascii() for character in small):
        inner = bare if re.fullmatch(r"\w+|[+\-\u2212]\w", bare) else f"({bare})"
        small = f"{'^' if height > 0 else '_'}{inner}"
    return f"{start}{small}{end}"


_LATIN = "la"
_WORDS = {
    "en": "the of and to in is that it was for on are with as his they be at from this have or by "
    "not but which had were you can has their will what would there been if when who more",
    "fr": "le la les de des du un une et est en que qui dans pour pas sur au aux plus ce cette se "
    "sont avec il elle par ne nous vous leur mais ou été être comme ces même d l qu n c j",
    "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine als auch es an "
    "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über so zum war",
    "es": "el la los las de del y que en un una es por con no para se su al lo como más pero sus "
    "le ha este ya o fue si porque esta son entre está cuando muy sin sobre también",
    "it": "il lo la gli le di del della dei delle e che in un una è per con non si da al alla nel "
    "nella sono come più ma anche ha dal o questo questa essere dalla suo l d",
    "pt": "o a os as de do da dos das e que em um uma é por com não para se na no ao como mais mas "
    "foi ele ela seu sua ou ser quando muito nos já está também só pelo pela são",
    # Only to recognise placeholder text, which is Latin and looks French by its "et, est".
    _LATIN: "et in est non ut ad cum sed quod qui quis sit ac ex aut ab enim vel nec esse per sunt "
    "eu vitae dolor ipsum lorem dolore",
    "nl": "de het een en van in is dat op te zijn met voor niet aan er die als ook om hij was bij "
    "maar door over wordt naar uit dan nog wel worden hebben heeft werd deze",
}
_STOP = {
    # Single letters are left out: they are column names and initials in any language.
    language: frozenset(word for word in words.split() if len(word) > 1)
    for language, words in _WORDS.items()
}
_WEIGHT = {word: 1 / n for word, n in Counter(w for s in _STOP.values() for w in s).items()}

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefe]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
)
_ALIKE = {"ru": re.compile("[іїєґІЇЄҐ]"), "ar": re.compile("[پچژگ]")}
"""Language -> letters of another in its script: Ukrainian, Persian."""
_PIECE = 4000


def guess_language(text: str) -> str:
    """Guess the ISO 639-1 code of a text; empty if unsure.

    Scripts decide for zh, ja, ko, ru, ar, el and he; commonest words for en, fr, de, es, it,
    pt and nl. Looks at up to three pieces of 4,000 characters, so its time does not grow
    with the text. Unsure below six words, if no language leads clearly, if few words are common
    ones (lists, source code; Latin and its imitations), and for scripts shared by a language it
    does not know (Ukrainian, Persian).
    """
    middle = len(text) // 2
    pieces = (text[:_PIECE], text[middle : middle + _PIECE], text[-_PIECE:])
    sample = text if len(text) <= 3 * _PIECE else "\n".join(pieces)
    letters = len(re.findall(r"[^\W\d_]", sample))
    if not letters:
        return ""
    counts = {language: len(pattern.findall(sample)) for language, pattern in _SCRIPTS}
    for language, _ in _SCRIPTS:
        # Japanese mixes kana with Chinese characters, so a little kana settles it.
        share = 0.1 if language == "ja" else 0.5
        base = counts["ja"] + counts["zh"] if language == "ja" else letters
        if counts[language] and counts[language] >= share * base and base > 0.3 * letters:
            other = _ALIKE.get(language)
            return "" if other and len(other.findall(sample)) > 0.01 * len(sample) else language
    # prose has about 0.005 such marks, and 99 of 100 pages of a compiler's manual, code samples
    # included, no more than 0.09
    marks = len(re.findall(r"[{}\[\]();=<>_\\]", sample))
    code = marks > 0.09 * (len(sample) - sum(map(str.isspace, sample)))
    # 99 of 100 encyclopaedia paragraphs have at least 0.13 common words, terse manuals less
    least = 0.16 if code else 0.06
    words = re.findall(r"[^\W\d_]+", sample.casefold())
    if len(words) < 6:
        return ""
    counts = Counter(words)
    scores = {
        language: sum(counts[word] * _WEIGHT[word] for word in stop if word in counts)
        for language, stop in _STOP.items()
    }
    (best, first), (_, second) = sorted(scores.items(), key=lambda p: (-p[1], p[0]))[:2]
    sure = sum(word in counts for word in _STOP[best]) > 1 and first >= least * len(words)
    return best if sure and best != _LATIN and first >= 1.5 * second else ""
