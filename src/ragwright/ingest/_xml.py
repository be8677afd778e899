"""XML documents as text: headed divisions become sections, other elements become paragraphs."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import MalformedSourceError, UnsupportedSourceError
from ._archive import parse_xml
from ._encoding import decode
from ._extract import Extract, TextBuilder
from ._html import parse_html, read_html
from ._normalise import spell_raised
from ._options import SourceOptions
from ._plain import read_plain

Element = ElementTree.Element

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_STATED = re.compile(rb"""<\?xml[^>]*\sencoding\s*=\s*["']([\w.:-]+)""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_DIVISION = re.compile(
    r"body|div\d?|sec|section|sect\d|chapter|appendix|preface|article|part|abstract|act|scene|"
    r"channel|feed|item|entry"
)
_LEFT_OUT = re.compile(r"\w+Header|script|style")
_RUNNING = frozenset({"p", "para", "l", "line", "head", "speaker", "stage", "item", "li"})
"""Elements whose whole content is one paragraph, even where it is all in child elements."""
_ITEMS = frozenset({"item", "li", "listitem"})
_ASIDES = frozenset({"stage", "note", "footnote"})
"""Elements whose text is set in parentheses."""
_FEED = frozenset({"description", "summary", "content", "encoded", "subtitle", "abstract"})
_MARKUP = re.compile(r"<(\w+)(?:\s[^<>]*)?>.*</\1>|<(?:br|p|img|hr)\s*/?>", re.DOTALL)
_LINES = frozenset({"l", "line", "castItem"})


def read_xml(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read an XML file; divisions that begin with a ``head`` or ``title`` become sections.

    XHTML is read as the page it is. What is not well formed, or holds its text in attributes
    only, is read as plain text, with a ``note`` in the metadata that says so.

    Raises:
        EmptySourceError: A file of white space.
        MalformedSourceError: The file declares entities.
        UnsupportedSourceError: The bytes are not text, or the file is an SVG drawing.
    """
    own = _STATED.search(data[:400].replace(b"\0", b""))
    decoded = decode(data, where, options.encoding, (own[1].decode("ascii") if own else "",))
    text = _DECLARATION.sub("", decoded.text.lstrip("\ufeff \t\r\n"), count=1)
    try:
        root = parse_xml(text.encode(errors="replace"), where)
    except MalformedSourceError as error:
        if not isinstance(error.__cause__, expat.ExpatError | ElementTree.ParseError):
            raise
        return _as_plain(data, where, options, f"{error.what}; read as plain text")
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag == "html":
        return read_html(data, where, options)
    if root.tag == "svg":
        raise UnsupportedSourceError(
            "no reader knows this file: it is an SVG drawing",
            where=where,
            hint="leave it out with `exclude`, or convert it to a format with text",
        )
    extract = replace(_document(root), faults=decoded.faults)
    no_text = "no text between the tags; read as plain text"
    return extract if extract.text else _as_plain(data, where, options, no_text)


def _as_plain(data: bytes, where: str, options: SourceOptions, note: str) -> Extract:
    extract = read_plain(data, where, options, ".xml")
    return replace(extract, metadata={**extract.metadata, "note": note})


def _document(root: Element) -> Extract:
    builder = TextBuilder()
    try:
        _XmlWalk(builder).block(root)
    except RecursionError:  # nested deeper than any real text: text without structure
        builder = TextBuilder()
        for words in root.itertext():
            builder.add(words, "\n")
    titles = (" ".join("".join(element.itertext()).split()) for element in root.iter("title"))
    language = re.split("[-_]", root.get(_LANG, ""))[0].lower()
    return builder.extract(
        "application/xml",
        {},
        title=next(filter(None, titles), ""),
        language=language if re.fullmatch("[a-z]{2}", language) else "",
    )


class _XmlWalk:
    """Passes the paragraphs, headings and tables of a tree to a builder, in reading order."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._last = ""
        self._depth = 0

    def block(self, element: Element) -> None:
        """Add an element that begins on a line of its own."""
        if _LEFT_OUT.fullmatch(element.tag):
            return
        if element.tag == "table" and self._table(element):
            return
        if not len(element) or _runs(element):
            self._paragraph(element)
            return
        headed = bool(_DIVISION.fullmatch(element.tag)) and element[0].tag in ("head", "title")
        self._depth += headed
        self._last = "speaker" if self._last == "speaker" else ""
        if headed:
            self._builder.heading(inline(element[0]), self._depth)
        for child in element[headed:]:
            self.block(child)
        self._last = ""
        self._depth -= headed

    def _paragraph(self, element: Element) -> None:
        if _holds_page(element):
            self._builder.markdown(_page_text(element), self._depth)
            self._last = ""
            return
        text = inline(element)
        if not text:
            return
        # Lines of verse and fields of a record follow each other; a speech follows its speaker.
        field = element.tag not in _RUNNING and not len(element)
        kind = "line" if field or element.tag in _LINES else element.tag
        if element.tag in _ITEMS:
            text, kind = f"- {text}", "line"
        if element.tag in _ASIDES:
            text = _bracketed(text)
        if element.tag == "speaker":
            text = f"{text.rstrip(' .,:')}:"
        tight = self._last == "speaker" or (self._last == kind == "line")
        self._builder.add(text, "\n" if tight and kind != "speaker" else "\n\n")
        self._last = kind

    def _table(self, table: Element) -> bool:
        """Add a table; False if it has no rows of cells."""
        lines = (line for line in table.iter() if line.tag in ("row", "tr"))
        cells = ([c for c in line if c.tag in ("cell", "td", "th", "entry")] for line in lines)
        rows = [[inline(cell) for cell in row] for row in cells if row]
        for title in (child for child in table if rows and child.tag in ("head", "title")):
            self._builder.add(inline(title))
        self._builder.table(rows)
        self._last = "" if rows else self._last
        return bool(rows)


def _holds_page(element: Element) -> bool:
    """Return True for HTML as text, escaped or in CDATA, as feeds have it."""
    text = "" if len(element) else (element.text or "").lstrip()
    named = element.tag in _FEED or "html" in element.get("type", "")
    return bool(_MARKUP.search(text)) and (named or text.startswith("<"))


def _page_text(element: Element) -> str:
    return parse_html(element.text or "", main_only=False).text


def _runs(element: Element) -> bool:
    """Return True for running text: by name, by text between children, or without children."""
    named = element.tag in _RUNNING and element[0].tag not in ("head", "title")
    texts = (element.text, *(child.tail for child in element))
    return named or any((text or "").strip() for text in texts)


def _bracketed(text: str) -> str:
    return text if text.startswith("(") and text.endswith(")") else f"({text})"


def inline(element: Element) -> str:
    """Return an element's text on one line; notes and stage directions in parentheses."""
    parts = [_page_text(element) if _holds_page(element) else element.text or ""]
    for child in element:
        text = "" if _LEFT_OUT.fullmatch(child.tag) else inline(child)
        if child.tag in ("sup", "sub"):
            text = spell_raised(text, "".join(parts)[-20:], 1 if child.tag == "sup" else -1)
        elif child.tag in _ASIDES:
            text = f" {_bracketed(text)} " if text else ""
        elif child.tag in _RUNNING or child.tag in ("s", "lb", "br", "pb"):
            text = f" {text} "
        else:
            # Spaces at the ends of an inline element separate words, too.
            inner = "".join(child.itertext())
            text = " " * (inner[:1].isspace()) + text + " " * (inner[-1:].isspace())
        parts += [text, child.tail or ""]
    return " ".join("".join(parts).split())
