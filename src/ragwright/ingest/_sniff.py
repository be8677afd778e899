"""Detects the format of a file by its bytes rather than its name."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from pathlib import Path

from ._encoding import is_binary

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
_FREE = 0xFFFFFFFA
_OLE = {
    "EncryptedPackage": "locked", "Workbook": "sheet", "Book": "sheet", "WordDocument": "doc",
    "PowerPoint Document": "ppt", "__properties_version1.0": "msg",
}  # fmt: skip
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


def sniff(data: bytes) -> str:
    """Detect a format: a key of ``NAMES``, or a description of an unknown format.

    ``text`` is any text that neither is HTML nor starts as XML does; ``""`` is binary data of no
    known kind.
    """
    head = data[:1024]
    if b"%PDF-" in head:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _sniff_zip(data)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _first_kind(_OLE, _streams(data), "an old Office file")
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
            return _first_kind(_MEMBERS, names, "a zip archive")
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, NotImplementedError):
        return "a damaged zip archive"


def _first_kind(kinds: dict[str, str], names: set[str], other: str) -> str:
    return next((kind for name, kind in kinds.items() if name in names), other)


def _streams(data: bytes) -> set[str]:
    """Return the names at the top of an OLE file; files within it have names of their own."""
    names: set[str] = set()
    try:
        size = 1 << struct.unpack_from("<H", data, 30)[0]
        tables = struct.unpack_from("<109I", data, 76)
        table = b"".join(data[(n + 1) * size : (n + 2) * size] for n in tables if n < _FREE)
        at = struct.unpack_from("<I", data, 48)[0]
        entries: list[bytes] = []
        while at < _FREE and len(entries) * 128 < len(data):
            sector = data[(at + 1) * size : (at + 2) * size]
            entries += [sector[n : n + 128] for n in range(0, size, 128)]
            at = struct.unpack_from("<I", table, 4 * at)[0]
        waiting = [struct.unpack_from("<I", entries[0], 76)[0]]
        while waiting and len(names) < len(entries):
            number = waiting.pop()
            if number < _FREE:
                entry = entries[number]
                names.add(entry[:64].decode("utf-16-le").partition("\0")[0])
                waiting += struct.unpack_from("<2I", entry, 68)
    except (struct.error, IndexError, UnicodeDecodeError):  # truncated
        pass
    return names
