"""Zip files of documents, opened within limits: EPUB books, OpenDocument texts and sheets."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html.entities import entitydefs
from itertools import chain
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import EncryptedSourceError, MalformedSourceError
from ._extract import (
    IMAGES_LEFT_OUT,
    Block,
    Cell,
    Extract,
    TextBuilder,
    merge_cells,
    read_span,
    write_number,
)
from ._html import decode_html, parse_html
from ._options import SourceOptions

_MANIFEST = "META-INF/manifest.xml"
"""Where an OpenDocument file says that it is encrypted."""


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
        self.names = tuple(m.filename for m in members)
        unpacked = sum(m.file_size for m in members)
        too_dense = unpacked > max(20_000_000, 200 * len(data))
        if unpacked > options.max_unpacked_bytes or too_dense:
            raise MalformedSourceError(
                f"the archive would unpack from {len(data):,} to {unpacked:,} bytes (a zip bomb?)",
                where=where,
                hint="if the file is to be trusted, unpack it and name the folder as a source",
            )
        if any(m.flag_bits & 1 for m in members) or (
            _MANIFEST in self.names and b"encryption-data" in self.read(_MANIFEST)
        ):
            raise EncryptedSourceError(
                "the document is protected by a password",
                where=where,
                hint="save a copy without the password",
            )

    def read(self, name: str) -> bytes:
        """Read the bytes of one member.

        Raises:
            MalformedSourceError: No such member, or it is damaged.
        """
        try:
            return self._zip.read(name)
        except (
            KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError
        ) as error:  # fmt: skip
            raise MalformedSourceError(
                f"{name!r} in the archive is missing or damaged: {error}",
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
        return ElementTree.fromstring(check_xml(data, where), parser)  # noqa: S314
    except ElementTree.ParseError as error:
        raise MalformedSourceError(
            f"the XML is damaged: {error}", where=where, hint="save the file again"
        ) from error


def texts_by_name(
    elements: Iterable[Any],
) -> tuple[defaultdict[str, str], defaultdict[str, list[str]]]:
    """Return the first text, and all texts, of the elements of each name or property."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for element in elements:
        name = element.get("property") or str(element.tag).rpartition("}")[2]
        texts[name] += filter(None, [(element.text or "").strip()])
    return defaultdict(str, {name: found[0] for name, found in texts.items() if found}), texts


_LOCKS = "META-INF/encryption.xml"
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
    if _LOCKS in archive.names:
        methods = parse_xml(archive.read(_LOCKS), where).iterfind(".//{*}EncryptionMethod")
        if not all(method.get("Algorithm") in _FONTS for method in methods):
            raise EncryptedSourceError(
                "the book is locked by a rights management system",
                where=where,
                hint="use a copy without it",
            )
    roots = parse_xml(archive.read("META-INF/container.xml"), where).iterfind(".//{*}rootfile")
    opf = unquote(next(filter(None, (root.get("full-path") for root in roots)), ""))
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


Element = ElementTree.Element

_OFFICE, _TEXT, _TABLE, _STYLE, _DRAW = (
    f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}"
    for name in ("office", "text", "table", "style", "drawing")
)
_NOTE = f"{_OFFICE}annotation"
_SKIPPED = frozenset(
    {f"{_TEXT}tracked-changes", _NOTE, f"{_OFFICE}annotation-end",
     f"{_OFFICE}forms", f"{_TEXT}sequence-decls", f"{_TEXT}variable-decls"}
)  # fmt: skip
_PARAGRAPHS = (f"{_TEXT}h", f"{_TEXT}p")
_ROW_GROUPS = (f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group")


def read_odt(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read an OpenDocument text; tracked deletions and comments are left out.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    archive, root = _content(data, where, options, builder)
    parts = [name for name in ("styles.xml", "meta.xml") if name in archive.names]
    roots = {name: parse_xml(archive.read(name), where) for name in parts}
    walk = _OdtWalk([root, roots.get("styles.xml", root)])
    builder.write(walk.blocks(root.iterfind(f"{_OFFICE}body")))
    about, _ = texts_by_name(roots["meta.xml"].iter() if "meta.xml" in roots else ())
    return builder.extract(
        "application/vnd.oasis.opendocument.text",
        {
            "author": about["creator"],
            "keywords": about["keyword"],
            **{name: about[name] for name in ("subject", "description")},
        },
        title=about["title"],
        language=about["language"][:2].lower(),
        dates=(about["creation-date"].split(".")[0], about["date"].split(".")[0]),
    )


def ods_sheets(
    data: bytes, where: str, options: SourceOptions, builder: TextBuilder
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield name and cells of the sheets of an OpenDocument spreadsheet; raises as a text does.

    The builder counts what is left out.
    """
    _, root = _content(data, where, options, builder)
    walk = _OdtWalk([])
    for table in root.iterfind(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table"):
        yield table.get(f"{_TABLE}name") or "", walk.grid(table)


def _content(
    data: bytes, where: str, options: SourceOptions, builder: TextBuilder
) -> tuple[Archive, Element]:
    archive = Archive(data, where, options)
    root = parse_xml(archive.read("content.xml"), where)
    notes, images = (sum(1 for _ in root.iter(tag)) for tag in (_NOTE, f"{_DRAW}image"))
    builder.miss("comment", "left out", "write it into the text if it counts", notes)
    builder.miss("image", *IMAGES_LEFT_OUT, images)
    return archive, root


class _OdtWalk:
    def __init__(self, roots: list[Element]) -> None:
        self._titles = {"Title": 1, "Subtitle": 2}
        """Style of a paragraph that makes a title or heading -> its level."""
        for style in (style for root in roots for style in root.iter(f"{_STYLE}style")):
            outline = style.get(f"{_STYLE}default-outline-level") or ""
            parent = self._titles.get(style.get(f"{_STYLE}parent-style-name") or "", 0)
            if level := (int(outline) if outline.isdecimal() else 0) or parent:
                self._titles[style.get(f"{_STYLE}name") or ""] = level
        self._ordered = {
            f"{style.get(f'{_STYLE}name')}/{level.get(f'{_TEXT}level')}"
            for root in roots
            for style in root.iter(f"{_TEXT}list-style")
            for level in style.iter(f"{_TEXT}list-level-style-number")
            if level.get(f"{_STYLE}num-format")
        }
        """``style/level`` of the list levels that are numbered."""

    def blocks(self, parent: Iterable[Element]) -> Iterator[Block]:
        """Yield the blocks in an element."""
        for child in parent:
            if child.tag in _PARAGRAPHS:
                level = self._titles.get(child.get(f"{_TEXT}style-name") or "", 0)
                if child.tag == _PARAGRAPHS[0]:
                    level = int(child.get(f"{_TEXT}outline-level") or 1)
                yield Block(inline(child).strip(), level)
                yield from self.blocks(chain(*child.iter(f"{_DRAW}text-box")))
            elif child.tag == f"{_TEXT}list":
                yield from self.items(child, 0, "")
            elif child.tag == f"{_TABLE}table":
                yield Block(rows=self.grid(child))
            elif child.tag not in _SKIPPED:
                yield from self.blocks(child)

    def items(self, parent: Element, depth: int, style: str) -> Iterator[Block]:
        """Yield the items of a list; further paragraphs of an item have no mark."""
        style = parent.get(f"{_TEXT}style-name") or style
        number = 0
        for item in parent:
            mark = ""
            for child in item:
                if child.tag == f"{_TEXT}list":
                    yield from self.items(child, depth + 1, style)
                elif child.tag in _PARAGRAPHS and (text := inline(child).strip()):
                    if mark:
                        yield Block(text, depth=depth + 1)
                        continue
                    number += 1
                    mark = f"{number}." if f"{style}/{depth + 1}" in self._ordered else "-"
                    yield Block(text, mark=mark, depth=depth)

    def grid(self, table: Element) -> list[list[str]]:
        """Return the cells of a table; merged ones are repeated in every place they cover."""
        return merge_cells(map(self.cells, _rows(table)))

    def cells(self, row: Element) -> list[Cell]:
        """Return the cells of a row without the empty ones at its end; covered ones say nothing."""
        names = ("number-columns-spanned", "number-columns-repeated")
        cells: list[Cell] = [
            (
                self.cell(c),
                read_span(c.get(f"{_TABLE}number-rows-spanned")),
                max(read_span(c.get(f"{_TABLE}{name}")) for name in names),
            )
            for c in row.iterfind(f"{_TABLE}table-cell")
        ]
        while cells and not cells[-1][0]:
            cells.pop()
        return cells

    def cell(self, cell: Element) -> str:
        """Return a cell's text; a number as its value, since its text depends on the language."""
        kind, value = (cell.get(f"{_OFFICE}{name}") or "" for name in ("value-type", "value"))
        if kind == "date":
            return (cell.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00")
        text = " ".join(filter(None, (block.line for block in self.blocks(cell))))
        if not value or (kind == "float" and text.startswith("0") and text.isdecimal()):
            return text  # with leading zeros
        number = write_number(float(value) * (100 if kind == "percentage" else 1))
        unit = {"percentage": "%", "currency": f" {cell.get(f'{_OFFICE}currency') or ''}"}
        return f"{number}{unit.get(kind, '')}".rstrip()


def inline(element: Element) -> str:
    """Return a paragraph's text with notes in brackets, without frames."""
    parts = [(element.text or "").replace("\n", " ")]
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name == "s":
            parts.append(" " * min(int(child.get(f"{_TEXT}c") or 1), 100))
        elif name == "note":
            body = child.find(f"{_TEXT}note-body")
            note = " ".join(inline(p) for p in body).strip() if body is not None else ""
            parts.append(f" ({note})" if note else "")
        elif child.tag not in _SKIPPED and name not in ("text-box", "object", "desc", "title"):
            parts.append({"tab": "\t", "line-break": "\n"}.get(name) or inline(child))
        parts.append((child.tail or "").replace("\n", " "))
    return "".join(parts)


def _rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == f"{_TABLE}table-row":
            filled = next(child.iter(f"{_TEXT}p"), None) is not None
            yield from [child] * (
                read_span(child.get(f"{_TABLE}number-rows-repeated")) if filled else 1
            )
        elif child.tag in _ROW_GROUPS:
            yield from _rows(child)
