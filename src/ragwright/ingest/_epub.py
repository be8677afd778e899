"""EPUB books: chapters in the order of the spine."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote
from xml.etree import ElementTree

from ..core import EncryptedSourceError, MalformedSourceError
from ._archive import Archive, parse_xml
from ._extract import Extract, TextBuilder
from ._html import decode_html, parse_html
from ._options import SourceOptions

_CONTAINER = "META-INF/container.xml"
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_CLOSED = re.compile(
    r"<((?!area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)"
    r"[A-Za-z][\w:.-]*)((?:\s[^<>]*?)?)/>"
)
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a book; each document of the spine is a section, its headings deeper ones.

    Raises:
        EncryptedSourceError: Locked by a rights management system.
        MalformedSourceError: Truncated or damaged.
    """
    archive = Archive(data, where, options)
    _refuse_locked(archive, where)
    opf = _package_path(archive, where)
    package = parse_xml(archive.read(opf), where)
    builder = TextBuilder()
    for path in _spine(package, opf):
        if path in archive:
            page = _CLOSED.sub(r"<\1\2></\1>", decode_html(archive.read(path), where).text)
            chapter = parse_html(page, main_only=False, where=where)
            if chapter.text and not chapter.sections and chapter.title:
                builder.heading(chapter.title, 2)
            builder.markdown(chapter.text)
    meta = _metadata(package)
    first = {name: values[0] for name, values in meta.items()}
    return builder.extract(
        "application/epub+zip",
        {
            "author": meta.get("creator"),
            "publisher": first.get("publisher"),
            "topics": meta.get("subject"),
            "description": first.get("description"),
        },
        title=" ".join(first.get("title", "").split()),
        language=first.get("language", "")[:2].lower(),
        dates=(first.get("date"), first.get("modified")),
    )


def _refuse_locked(archive: Archive, where: str) -> None:
    name = "META-INF/encryption.xml"
    if name not in archive:
        return
    for element in parse_xml(archive.read(name), where).iter():
        algorithm = element.get("Algorithm") or ""
        if element.tag.endswith("}EncryptionMethod") and algorithm not in _FONTS:
            raise EncryptedSourceError(
                "the book is locked by a rights management system",
                where=where,
                hint="use a copy without it",
            )


def _package_path(archive: Archive, where: str) -> str:
    for element in parse_xml(archive.read(_CONTAINER), where).iter():
        if element.tag.endswith("}rootfile") and element.get("full-path"):
            return unquote(element.get("full-path") or "")
    raise MalformedSourceError("the book names no package file", where=where, hint="save it again")


def _spine(package: ElementTree.Element, opf: str) -> list[str]:
    """Return the paths of the book's documents in reading order."""
    folder = posixpath.dirname(opf)
    manifest = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or "")))
        for item in package.iter()
        if item.tag.endswith("}item") and item.get("media-type") in _PAGES
        and "nav" not in (item.get("properties") or "").split()
    }  # fmt: skip
    order = [i.get("idref") for i in package.iter() if i.tag.endswith("}itemref")]
    return list(dict.fromkeys(manifest[i] for i in order if i in manifest))


def _metadata(package: ElementTree.Element) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for element in package.iter():
        name = element.tag.rpartition("}")[2]
        text = (element.text or "").strip()
        if "purl.org/dc/elements" in element.tag and text:
            values.setdefault(name, []).append(text)
        elif name == "meta" and element.get("property") == "dcterms:modified" and text:
            values.setdefault("modified", []).append(text)
    return values
