"""Opens zip files protected against bombs; reads EPUB books: chapters in the order of the spine."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable
from html.entities import entitydefs
from typing import Any, TypeAlias
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import EncryptedSourceError, MalformedSourceError
from ._extract import Extract, TextBuilder
from ._html import decode_html, parse_html
from ._options import SourceOptions

_RATIO = 200
"""Largest ratio of unpacked to packed bytes."""

_RATIO_FLOOR = 20_000_000


class Archive:
    """A zip file whose declared size has been checked; members are read by name.

    A member that unpacks to more than it declares is cut off by ``zipfile`` and fails its
    checksum, so the check of the declared sizes bounds what can be read.

    Raises:
        EncryptedSourceError: Members are locked by a password.
        MalformedSourceError: Truncated, damaged, or larger than the options allow.
    """

    def __init__(self, data: bytes, where: str, options: SourceOptions) -> None:
        self.where = where
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise MalformedSourceError(
                f"the archive is truncated or damaged: {error}",
                where=where,
                hint="copy or download the file again",
            ) from error
        members = self._zip.infolist()
        if any(m.flag_bits & 1 for m in members):
            raise EncryptedSourceError(
                "the archive is protected by a password",
                where=where,
                hint="save a copy without the password",
            )
        unpacked = sum(m.file_size for m in members)
        too_dense = unpacked > _RATIO_FLOOR and unpacked > _RATIO * max(len(data), 1)
        if unpacked > options.max_unpacked_bytes or too_dense:
            raise MalformedSourceError(
                f"the archive would unpack from {len(data):,} to {unpacked:,} bytes (a zip bomb?)",
                where=where,
                hint="if the file is to be trusted, unpack it and name the folder as a source",
            )
        self.names = tuple(m.filename for m in members)

    def read(self, name: str) -> bytes:
        """Read the bytes of one member.

        Raises:
            MalformedSourceError: No such member, or it is damaged.
        """
        try:
            return self._zip.read(name)
        except KeyError as error:
            raise MalformedSourceError(
                f"the archive contains no {name!r}",
                where=self.where,
                hint="the file is incomplete; save it again",
            ) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise MalformedSourceError(
                f"{name!r} in the archive is damaged: {error}",
                where=self.where,
                hint="copy or download the file again",
            ) from error


def check_xml(data: bytes, where: str) -> bytes:
    """Check that bytes are XML without entity declarations, and return them.

    Raises:
        MalformedSourceError: Not well formed, or declares entities (a bomb, or a way to
            other files); no document format needs them.
    """

    def refuse(*_: object) -> None:
        raise MalformedSourceError(
            "the XML declares entities",
            where=where,
            hint="no document needs them; the file may be hostile",
        )

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MalformedSourceError(
            f"the XML is damaged: {error}", where=where, hint="save the file again"
        ) from error
    return data


def parse_xml(data: bytes, where: str) -> ElementTree.Element:
    """Parse an XML document to its root; it may use the entities of HTML.

    Raises:
        MalformedSourceError: Not well formed, with the parser's error as the cause, or it declares
            entities.
    """
    parser = ElementTree.XMLParser()  # noqa: S314 - entities of the file's own are refused
    parser.entity.update(entitydefs)
    try:
        parser.feed(check_xml(data, where))
        root: ElementTree.Element = parser.close()
    except ElementTree.ParseError as error:
        raise MalformedSourceError(
            f"the XML is damaged: {error}", where=where, hint="save the file again"
        ) from error
    return root


Texts: TypeAlias = tuple[defaultdict[str, str], defaultdict[str, list[str]]]


def texts_by_name(elements: Iterable[Any]) -> Texts:
    """Return the first text, and all texts, of the elements of each name or property."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for element in elements:
        name = element.get("property") or str(element.tag).rpartition("}")[2]
        texts[name] += filter(None, [(element.text or "").strip()])
    first = {name: found[0] for name, found in texts.items() if found}
    return defaultdict(str, first), texts


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
        if path in archive.names:
            page = _CLOSED.sub(r"<\1\2></\1>", decode_html(archive.read(path), where).text)
            chapter = parse_html(page, main_only=False, where=where)
            if chapter.text and not chapter.sections and chapter.title:
                builder.heading(chapter.title, 2)
            builder.markdown(chapter.text)
    first, every = texts_by_name(package.iter())
    return builder.extract(
        "application/epub+zip",
        {
            "author": every["creator"],
            "publisher": first["publisher"],
            "topics": every["subject"],
            "description": first["description"],
        },
        title=" ".join(first["title"].split()),
        language=first["language"][:2].lower(),
        dates=(first["date"], first["dcterms:modified"]),
    )


def _refuse_locked(archive: Archive, where: str) -> None:
    name = "META-INF/encryption.xml"
    if name not in archive.names:
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
