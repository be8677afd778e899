"""Plain text, source code, JSON, notebooks and XML."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import MalformedSourceError, MissingExtraError, Page, Span, UnsupportedSourceError
from ._archive import parse_xml
from ._encoding import clean_metadata, decode, guess_language, normalise, spell_raised, suffix_of
from ._extract import Block, Extract, TextBuilder, sections_of
from ._html import parse_html, read_html
from ._options import SourceOptions
from ._pdf_layout import join_broken_words

Heading = tuple[str, int, int]
"""Title, level from 1, position."""

_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1+")
_ADOC = (
    re.compile(
        r"(?ms)^(-{4,}|\.{4,}|\+{4,}|/{4,}|={4,}|\*{4,}|_{4,}|```|\|===)[ \t]*$"
        r".*?(?:^\1[ \t]*$|\Z)"
    ),
    re.compile(r"(?m)^(={1,6}|#{1,6})[ \t]+(\S.*?)[ =#\t]*$"),
)
_ORG = (
    re.compile(r"(?ims)^[ \t]*#\+begin.*?(?:^[ \t]*#\+end|\Z)"),
    re.compile(
        r"(?m)^(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING)[ \t]+)?(?:\[#.\][ \t]+)?(.*?\S)"
        r"(?:[ \t]+:[\w@#%:]+:)?[ \t]*$"
    ),
)
_NOTHING = re.compile(r"(?!)")
_WIKI = (_NOTHING, re.compile(r"(?m)^(={1,6})[ \t]*([^=\s](?:.*[^=\s])?)[ \t]*\1[ \t]*$"))
_LATEX = (_NOTHING, re.compile(r"\\(chapter|section|subsection|subsubsection)\*?\{([^{}]+)\}"))
_LATEX_LEVELS = {"chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}
_FORMATS = {
    ".adoc": _ADOC, ".asciidoc": _ADOC, ".asc": _ADOC, ".org": _ORG, ".wiki": _WIKI,
    ".mediawiki": _WIKI, ".tex": _LATEX,
}  # fmt: skip
"""Suffix -> blocks without headings, and headings as mark and title."""


def headings_of(text: str, suffix: str) -> tuple[str, list[Heading]]:
    """Return the title and the headings of a text in the format of its suffix.

    A text of another format has neither. The title is what the format states, else the first
    heading.
    """
    headings = list(_rest(text)) if suffix in (".rst", ".rest") else []
    if suffix in _FORMATS:
        blocks, pattern = _FORMATS[suffix]
        bare = blocks.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        headings = [
            (" ".join(m[2].split()), _LATEX_LEVELS.get(m[1], len(m[1])), m.start())
            for m in pattern.finditer(bare)
        ]
    stated = re.search(r"(?im)^#\+title:[ \t]*(.+)$", text) if suffix == ".org" else None
    return (stated[1].strip() if stated else headings[0][0] if headings else ""), headings


def _rest(text: str) -> Iterator[Heading]:
    """Find lines with an underline at least as long; each style has the level of its first use."""
    styles: list[tuple[str, bool]] = []
    lines = ["", *text.split("\n"), ""]
    starts = itertools.accumulate((len(line) + 1 for line in lines[1:]), initial=0)
    for at, above, title, below in zip(starts, lines, lines[1:], lines[2:], strict=False):
        bare = title.strip()
        rule = _UNDERLINE.fullmatch(below.rstrip())
        over = above.rstrip() == below.rstrip() and bool(above.strip())
        if not rule or not bare or _UNDERLINE.fullmatch(bare) or len(below.rstrip()) < len(bare):
            continue
        if not over and (title[0].isspace() or above.strip() or bare.startswith("..")):
            continue
        style = (rule[1], over)
        if style not in styles:
            styles.append(style)
        yield " ".join(bare.split()), styles.index(style) + 1, at


CODE = {
    ".bash": "bash", ".c": "c", ".cc": "cpp", ".cfg": "ini", ".clj": "clojure", ".cpp": "cpp",
    ".cs": "csharp", ".css": "css", ".dart": "dart", ".ex": "elixir", ".f90": "fortran",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".hs": "haskell", ".ini": "ini", ".java": "java",
    ".jl": "julia", ".js": "javascript", ".json": "json", ".jsonl": "json", ".jsx": "javascript",
    ".kt": "kotlin", ".lua": "lua", ".m": "matlab", ".ml": "ocaml", ".php": "php", ".pl": "perl",
    ".ps1": "powershell", ".py": "python", ".r": "r", ".rb": "ruby", ".rs": "rust",
    ".scala": "scala", ".sh": "bash", ".sql": "sql", ".swift": "swift", ".tex": "latex",
    ".toml": "toml", ".ts": "typescript", ".tsx": "typescript", ".vb": "vb", ".xml": "xml",
    ".yaml": "yaml", ".yml": "yaml",
}  # fmt: skip
"""Suffix -> language of source code and data text, kept as metadata ``code_language``."""


def read_plain(data: bytes, where: str, options: SourceOptions, suffix: str = "") -> Extract:
    """Read text unchanged but for codes of JSON and words that line ends split, which are joined.

    Form feeds separate pages. Linear in the size.

    Raises:
        UnsupportedSourceError: The bytes are not text.
    """
    suffix = suffix or suffix_of(where)
    decoded = decode(data, where, options.encoding)
    if suffix in JSON:
        decoded = replace(decoded, text=unescape_json(decoded.text, by_line=suffix in RECORDS))
    code = CODE.get(suffix, "")
    pieces = [normalise(piece) for piece in decoded.text.split("\f")]
    if not code:
        pieces = [join_broken_words(piece) for piece in pieces]
    text = "\n".join(pieces) if len(pieces) > 1 else pieces[0]
    title, headings = headings_of(text, suffix)
    return Extract(
        text=text,
        title=title,
        language="" if code and not headings else guess_language(text),
        media_type="application/json" if suffix == ".json" else "text/plain",
        sections=sections_of(headings, len(text)),
        pages=_pages([len(piece) for piece in pieces]),
        metadata=clean_metadata({"encoding": decoded.unusual, "code_language": code}),
        faults=decoded.faults,
    )


def _pages(lengths: list[int]) -> tuple[Page, ...]:
    ends = list(itertools.accumulate(length + 1 for length in lengths))
    ends[-1] -= 1
    ends = ends if lengths[-1] else ends[:-1]  # a form feed that ends the file starts no page
    spans = map(Span, (0, *ends), ends)
    return tuple(map(Page, itertools.count(1), spans)) if len(ends) > 1 else ()


RECORDS = frozenset({".jsonl", ".ndjson"})
"""Suffixes of files with a JSON value in each line."""

JSON = RECORDS | {".json", ".geojson", ".topojson", ".jsonld", ".har", ".webmanifest"}

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)


def unescape_json(text: str, *, by_line: bool) -> str:
    r"""Return JSON with the characters of its ``\u`` codes, line ends and tabs.

    Quotes and backslashes of a string stay escaped, so it can be seen where the string ends.

    Args:
        text: As it is in the file.
        by_line: Write a space for a line end within a string: each line is a record.
    """

    def shown(match: re.Match[str]) -> str:
        try:
            character = str(json.loads(f'"{match[0]}"'))
        except ValueError:
            return match[0]
        if character in ('"', "\\"):
            return match[0]
        return character if (character >= " " or (character == "\n" and not by_line)) else " "

    return _ESCAPE.sub(shown, text) if "\\" in text else text


def read_notebook(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a notebook as Markdown: its texts, its code, and what the code printed.

    Raises:
        MalformedSourceError: Not JSON, or without cells.
    """
    decoded = decode(data, where, options.encoding)
    try:
        notebook = json.loads(decoded.text)
        cells = notebook["cells"]
        about = notebook.get("metadata") or {}
        named = (about.get("language_info") or {}).get("name")
        language = str(named or (about.get("kernelspec") or {}).get("language") or "").lower()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedSourceError(
            f"not a notebook of version 4: {type(error).__name__}: {error}",
            where=where,
            hint="open it in Jupyter and save it again",
        ) from error
    builder = TextBuilder()
    for cell in cells:
        for block in _cell(cell, language, builder):
            builder.markdown(block)
    extract = builder.extract("application/x-ipynb+json", {"code_language": language})
    return replace(extract, faults=(*decoded.faults, *extract.faults))


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _cell(cell: Mapping[str, Any], language: str, builder: TextBuilder) -> Iterator[str]:
    kind = cell.get("cell_type")
    source = _joined(cell.get("source")).strip("\n")
    _miss(builder, "image", len(cell.get("attachments") or ()))
    if kind != "code":
        yield source
    elif source.strip():
        yield _fenced(source, language)
    for output in cell.get("outputs") or ():
        yield _output(output, builder)


def _output(output: Mapping[str, Any], builder: TextBuilder) -> str:
    """Return what a cell printed: Markdown, a table, plain text, or the name of an error."""
    if "ename" in output:
        return _fenced(f"{output['ename']}: {output.get('evalue', '')}", "")
    data = output.get("data") or {"text/plain": output.get("text")}
    images = sum(kind.startswith("image/") for kind in data)
    _miss(builder, "image", images)
    for kind in ("text/markdown", "text/html", "text/latex", "text/plain"):
        text = _joined(data.get(kind))
        if kind == "text/html":
            text = _table(text)
        if text.strip():
            return _fenced(text, "") if kind == "text/plain" else text
    if output.get("data") and not images:
        _miss(builder, "interactive output", 1)
    return ""


def _miss(builder: TextBuilder, noun: str, count: int) -> None:
    builder.miss(noun, "left out", "save what it shows as a file if its text matters", count)


def _table(html: str) -> str:
    """Return the text of HTML with a table; other HTML is drawn by scripts, or printed too."""
    try:
        return parse_html(html, main_only=False).text if "<table" in html else ""
    except MissingExtraError:
        return ""


def _fenced(text: str, language: str) -> str:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip("\n")
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    return f"{'`' * (longest + 1)}{language}\n{text}\n{'`' * (longest + 1)}" if text.strip() else ""


Element = ElementTree.Element

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_STATED = re.compile(rb"""<\?xml[^>]*\sencoding\s*=\s*["']([\w.:-]+)""")
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
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.text.lstrip("\ufeff \t\r\n"))
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
    builder = TextBuilder()
    try:
        _write_xml(root, 0, builder)
    except RecursionError:  # nested deeper than any real text: text without structure
        builder = TextBuilder()
        for words in root.itertext():
            builder.add(words, "\n")
    if not builder.length:
        return _as_plain(data, where, options, "no text between the tags; read as plain text")
    titles = (" ".join("".join(element.itertext()).split()) for element in root.iter("title"))
    language = re.split("[-_]", root.get(_LANG, ""))[0].lower()
    extract = builder.extract(
        "application/xml",
        {},
        title=next(filter(None, titles), ""),
        language=language if re.fullmatch("[a-z]{2}", language) else "",
    )
    return replace(extract, faults=decoded.faults)


def _as_plain(data: bytes, where: str, options: SourceOptions, note: str) -> Extract:
    extract = read_plain(data, where, options, ".xml")
    return replace(extract, metadata={**extract.metadata, "note": note})


def _write_xml(element: Element, depth: int, builder: TextBuilder, lead: str = "\n\n") -> None:
    """Write the paragraphs, headings and tables of a tree, in reading order.

    Lines of verse and fields of a record follow each other; a speech follows its speaker.
    """
    rows = _rows(element) if element.tag == "table" else []
    if rows:
        titles = (child for child in element if child.tag in ("head", "title"))
        builder.write([*(Block(inline(title)) for title in titles), Block(rows=rows)])
    elif _is_text(element):
        if _holds_page(element):
            builder.markdown(_page_text(element), depth)
        else:
            builder.add(_paragraph(element), lead)
    else:
        headed = bool(_DIVISION.fullmatch(element.tag)) and element[0].tag in ("head", "title")
        if headed:
            builder.heading(inline(element[0]), depth + 1)
        last: Element | None = None
        for child in element[headed:]:
            lines = last is not None and _is_line(last) and _is_line(child)
            if last is not None:
                lead = "\n" if lines or last.tag == "speaker" else "\n\n"
            before = builder.length
            if not _LEFT_OUT.fullmatch(child.tag):
                _write_xml(child, depth + headed, builder, lead)
            last = child if builder.length > before else last


def _is_text(element: Element) -> bool:
    """Return True for running text: by name, by text between children, or without children."""
    if not len(element) or (element.tag in _RUNNING and element[0].tag not in ("head", "title")):
        return True
    return any((text or "").strip() for text in (element.text, *(c.tail for c in element)))


def _is_line(element: Element) -> bool:
    """Return True for text that follows the line before it: verse, an item, a field of a record."""
    field = element.tag not in _RUNNING and not len(element)
    return _is_text(element) and (field or element.tag in _ITEMS or element.tag in _LINES)


def _paragraph(element: Element) -> str:
    text = inline(element)
    if element.tag in _ITEMS and text:
        return f"- {text}"
    if element.tag == "speaker" and text:
        return f"{text.rstrip(' .,:')}:"
    return _bracketed(text) if element.tag in _ASIDES and text else text


def _rows(table: Element) -> list[list[str]]:
    lines = (line for line in table.iter() if line.tag in ("row", "tr"))
    cells = ([c for c in line if c.tag in ("cell", "td", "th", "entry")] for line in lines)
    return [[inline(cell) for cell in row] for row in cells if row]


def _holds_page(element: Element) -> bool:
    """Return True for HTML as text, escaped or in CDATA, as feeds have it."""
    text = "" if len(element) else (element.text or "").lstrip()
    named = element.tag in _FEED or "html" in element.get("type", "")
    return bool(_MARKUP.search(text)) and (named or text.startswith("<"))


def _page_text(element: Element) -> str:
    return parse_html(element.text or "", main_only=False).text


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
