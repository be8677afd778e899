"""XML: TEI editions, drawings and other documents as text, tags taken off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.entities import entitydefs
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import EmptySourceError, MalformedSourceError
from ._archive import safe_xml
from ._extract import Extract, TextBuilder
from ._html import read_html
from ._language import guess_language
from ._normalise import clean_metadata, decode, iso_date
from ._options import SourceOptions
from ._plain import read_plain

Element = ElementTree.Element

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_DIVISION = re.compile(r"div\d?|sec|section|sect\d|chapter|appendix|preface|article|part|abstract")
_UNSEEN = frozenset({"facsimile", "standOff", "fw", "script", "style"})
_HOLDERS = frozenset(
    {"p", "para", "ab", "l", "s", "head", "speaker", "stage", "item", "cell", "td", "th", "entry",
     "castItem", "titlePart", "docAuthor", "docImprint", "trailer", "byline", "label", "note"}
)  # fmt: skip
"""Elements that hold running text: what is in them stays in the line."""
_BLOCKS = frozenset(
    {"p", "para", "ab", "l", "lg", "sp", "list", "ul", "ol", "item", "table",
     "castList", "castItem", "figure", "div"}
)  # fmt: skip
"""Elements that start a line of their own wherever they stand."""
_TIGHT = frozenset({"l", "item", "castItem", "field"})
_ITEMS = frozenset({"item", "list-item", "listitem", "li"})
_NO_SECTION = frozenset({"list", "table", "figure", "lg", "castList", "sp", "listBibl"})
_TITLES = (
    "title", "info/title", "channel/title", "header/title", "metadata/title",
    "front/article-meta/title-group/article-title",
)  # fmt: skip
_INSTEAD = {"sic": "corr", "orig": "reg", "abbr": "expan"}


def read_xml(data: bytes, where: str, options: SourceOptions) -> Extract:
    """An XML file: TEI with its headings, speeches and header, a drawing's words, or any other.

    XHTML is read as the page it is. What is not well formed, or holds its text in attributes
    only, is read as plain text, with a ``note`` in the metadata that says so.

    Raises:
        EmptySourceError: A drawing without text, or a file of white space.
        MalformedSourceError: The file declares entities.
        UnsupportedSourceError: The bytes are no text.
    """
    if options.encoding:
        text = decode(data, where, options.encoding)[0]
        data = _DECLARATION.sub("", text, count=1).encode()
    try:
        root = _parse(data.lstrip(b" \t\r\n"), where)
    except MalformedSourceError as error:
        if not isinstance(error.__cause__, expat.ExpatError | ElementTree.ParseError):
            raise
        return _as_plain(data, where, options, f"{error.what}; read as plain text")
    if root.tag == "html":
        return read_html(data, where, options)
    if root.tag == "svg":
        return _drawing(root, where)
    extract = _document(root)
    if not extract.text:
        return _as_plain(data, where, options, "no text between the tags; read as plain text")
    return extract


def _parse(data: bytes, where: str) -> Element:
    """Root of the tree, names without their namespaces.

    Raises:
        MalformedSourceError: Entities are declared; or not well formed, with the parser's
            error as the cause.
    """
    safe_xml(data, where)
    parser = ElementTree.XMLParser()  # noqa: S314 - entities of the file's own are refused
    parser.entity.update(entitydefs)  # HTML's, which a file with an outside DTD may use
    try:
        parser.feed(data)
        root: Element = parser.close()
    except ElementTree.ParseError as error:
        raise MalformedSourceError(
            f"the XML is damaged: {error}", where=where, hint="save the file again"
        ) from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _as_plain(data: bytes, where: str, options: SourceOptions, note: str) -> Extract:
    found = read_plain(data, where, ".xml", options)
    return replace(found, metadata={**found.metadata, "note": note})


def _drawing(root: Element, where: str) -> Extract:
    """Words of an SVG drawing: its texts, titles and descriptions, each on a line."""
    builder = TextBuilder()
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag in ("text", "title", "desc"):
            builder.add(" ".join(" ".join(element.itertext()).split()), "\n")
        else:
            waiting += reversed(element)
    text = builder.text()
    if not text:
        raise EmptySourceError(
            "the drawing holds no text",
            where=where,
            hint="leave it out with `exclude`; text drawn as outlines cannot be read",
        )
    return Extract(
        text=text,
        title=" ".join((root.findtext("title") or "").split()),
        language=_language(root) or guess_language(text),
        media_type="image/svg+xml",
    )


def _document(root: Element) -> Extract:
    _prune(root)
    builder = TextBuilder()
    try:
        _Walk(builder).block(root)
    except RecursionError:  # nested deeper than any real text: the words without structure
        builder = TextBuilder()
        for words in root.itertext():
            builder.add(words, "\n")
    text, sections = builder.text(), builder.sections()
    header = next(root.iter("teiHeader"), None)
    titles = header.iterfind("fileDesc/titleStmt/title") if header is not None else _titles(root)
    title = next((t for t in (" ".join("".join(e.itertext()).split()) for e in titles) if t), "")
    return Extract(
        text=text,
        title=title or (sections[0].title if sections else ""),
        language=_language(root, header) or guess_language(text),
        created=_created(header),
        media_type="application/xml" if header is None else "application/tei+xml",
        sections=sections,
        metadata=_metadata(header),
    )


def _titles(root: Element) -> Iterator[Element]:
    for path in _TITLES:
        yield from root.iterfind(path)


def _created(header: Element | None) -> str:
    """Date of the work, else of the edition."""
    for path in ("profileDesc/creation//date", "fileDesc/publicationStmt//date"):
        for date in header.iterfind(path) if header is not None else ():
            found = iso_date(date.get("when") or date.text)
            if found:
                return found
    return ""


def _metadata(header: Element | None) -> dict[str, str | int | float | bool | tuple[str, ...]]:
    if header is None:
        return {}
    paths = {
        "author": "fileDesc/titleStmt/author",
        "publisher": "fileDesc/publicationStmt/publisher",
        "keywords": "profileDesc/textClass/keywords//term",
    }
    return clean_metadata(
        {
            name: "; ".join(" ".join("".join(e.itertext()).split()) for e in header.iterfind(path))
            for name, path in paths.items()
        }
    )


def _language(root: Element, header: Element | None = None) -> str:
    """Two-letter code that the file itself states, empty where it states none."""
    body = root.find("text")
    used = list(header.iterfind("profileDesc/langUsage/language")) if header is not None else []
    for stated in (
        body.get(_LANG, "") if body is not None else "",
        root.get(_LANG, ""),
        used[0].get("ident", "") if len(used) == 1 else "",
    ):
        code = re.split("[-_]", stated)[0].lower()
        if len(code) == 2 and code.isalpha():
            return code
    return ""


class _Walk:
    """Blocks of a tree in reading order, handed to a builder."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._line: list[str] = []
        self._last = ""
        self._depth = 0
        self._mark = ""

    def block(self, element: Element) -> None:
        """An element that stands on lines of its own."""
        tag = element.tag
        if tag == "teiHeader":
            return
        if tag in ("table", "informaltable") and self._table(element):
            return
        if tag in _ITEMS:
            self._mark = "- "
        kind = tag if tag in ("l", "speaker", "stage", "castItem") else _kind(element)
        if _runs(element):
            self._inside(element, kind)
            self._flush(kind)
        else:
            self._container(element)
        if tag in _ITEMS:
            self._mark = ""

    def _container(self, element: Element) -> None:
        inside = bool(_DIVISION.fullmatch(element.tag)) or _headed_body(element)
        self._depth += inside
        if self._last not in ("speaker", "item"):
            self._last = ""
        titled = False
        for child in element:
            if not titled and _is_heading(child, element):
                titled = True
                self._builder.heading(inline(child), max(1, self._depth))
                self._last = ""
            else:
                self.block(child)
        if self._last != "item":
            self._last = ""
        self._depth -= inside

    def _inside(self, element: Element, kind: str) -> None:
        """Running text; blocks within it part it."""
        self._line.append(element.text or "")
        for child in element:
            if child.tag in _BLOCKS:
                self._flush(kind)
                self.block(child)
            elif any(inner.tag in _BLOCKS for inner in child.iter()):
                self._inside(child, kind)
            else:
                _inline(child, self._line)
            self._line.append(child.tail or "")

    def _flush(self, kind: str) -> None:
        text = " ".join("".join(self._line).split())
        self._line.clear()
        if not text:
            return
        if kind == "stage":
            text = _bracketed(text)
        tight = self._last == "speaker" or (kind == self._last and kind in _TIGHT)
        if kind == "speaker":
            tight = False
        self._builder.add(self._mark + text, "\n" if tight else "\n\n")
        self._mark = ""
        self._last = kind

    def _table(self, table: Element) -> bool:
        """Hand on a table; False where it has no rows of cells."""
        rows = [
            [inline(cell) for cell in row if cell.tag in ("cell", "td", "th", "entry")]
            for row in table.iter()
            if row.tag in ("row", "tr")
        ]
        if not any(rows):
            return False
        for name in ("head", "title", "caption"):
            for title in table.iterfind(name):
                self._builder.add(inline(title))
        self._builder.table([row for row in rows if row])
        self._last = ""
        return True


def _runs(element: Element) -> bool:
    """True for running text: by name, by text between the children, or for want of children."""
    if element.tag in _HOLDERS or not len(element):
        return True
    return bool((element.text or "").strip() or any((c.tail or "").strip() for c in element))


def _kind(element: Element) -> str:
    if element.tag in _ITEMS:
        return "item"
    # A value of a record rather than a paragraph: records are lines, not paragraphs.
    return "field" if element.tag not in _HOLDERS and not len(element) else "p"


def _is_heading(child: Element, parent: Element) -> bool:
    if child.tag == "head":
        return parent.tag not in _NO_SECTION and _runs(child)
    return child.tag == "title" and bool(_DIVISION.fullmatch(parent.tag))


def _headed_body(element: Element) -> bool:
    return element.tag == "body" and element.find("head") is not None


def _prune(root: Element) -> None:
    """Empty what is not read, and of an edition's two readings of a word the older one."""
    for element in list(root.iter()):
        names = {child.tag for child in element} if element.tag == "choice" else ()
        for child in element:
            if child.tag in _UNSEEN or _INSTEAD.get(child.tag) in names:
                tail = child.tail
                child.clear()
                child.tail = tail


def _bracketed(text: str) -> str:
    return text if text.startswith("(") and text.endswith(")") else f"({text})"


def inline(element: Element) -> str:
    """Running text of an element on one line; notes and stage directions in parentheses."""
    parts: list[str] = [element.text or ""]
    for child in element:
        _inline(child, parts)
        parts.append(child.tail or "")
    return " ".join("".join(parts).split())


def _inline(element: Element, parts: list[str]) -> None:
    tag = element.tag
    if tag in ("stage", "note", "footnote"):
        text = inline(element)
        parts.append(f" {_bracketed(text)} " if text else "")
        return
    if tag in ("lb", "pb", "cb") and element.get("break") != "no":
        parts.append(" ")
    parts.append(element.text or "")
    for child in element:
        _inline(child, parts)
        parts.append(child.tail or "")
    if tag in ("s", "p", "l", "br"):
        parts.append(" ")
