"""Bytes: their format; text by mark, by what the file states, as UTF-8, else by a guess."""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import chardet

from ..core import (
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
)

_CONTROL_BYTES = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
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
    if controls or data.startswith(_MARKS) or b"\x1b$" in data:
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

RARE = frozenset({"doc", "ppt", "rtf", "msg"})
"""Formats that only a parser of another package reads."""

BINARY = RARE | {"pdf", "docx", "pptx", "sheet", "odt", "odp", "epub", "image"}
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
_FILM = re.compile(rb"RIFF.{4}(?:WEBP|WAVE|AVI )|.{4}ftyp", re.DOTALL)
_HTML = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!doctype html|<html|<head|<body)", re.I | re.S
)
_XML = re.compile(rb"\s*(<\?xml\b|<!DOCTYPE\s+(?!html\b))", re.I)
_ELEMENT = re.compile(rb"\s*(?:<!--.*?-->\s*)*<([A-Za-z_][\w:.-]*)[\s>]", re.S)
_MAILBOX = re.compile(rb"From \S+ [^\n]*\d\d:\d\d[^\n]*\n>?[!-9;-~]+:")
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
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if _FILM.match(head):
        return "an image, sound or film"
    if is_binary(data):
        return ""
    start = head.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"")
    if _HTML.match(start):
        return "html"
    return "xml" if _XML.match(start) else "text"


def sniff_mail(data: bytes) -> str:
    """Return ``mbox`` or ``eml`` for a text that begins as one of them does, else nothing."""
    if _MAILBOX.match(data[:4096]):
        return "mbox"
    names = {name.lower() for name in _HEADER.findall(data[:16_384].partition(b"\n\n")[0])}
    return "eml" if _HEADER.match(data) and len(names & _HEADERS) > 2 else ""


def is_element(data: bytes) -> bool:
    """Return True for a text that is one element of XML, from its first tag to its last."""
    first = _ELEMENT.match(data[:1024])
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
