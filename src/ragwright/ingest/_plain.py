"""Plain text, logs, source code and JSON, with its characters for their codes; notebooks."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..core import (
    MalformedSourceError,
    MissingExtraError,
    Page,
    Span,
)
from ._encoding import decode, suffix_of
from ._extract import Extract, TextBuilder, sections_of
from ._html import parse_html
from ._normalise import clean_metadata, guess_language, normalise
from ._options import SourceOptions
from ._pdf_layout import join_broken_words

Heading = tuple[str, int, int]
"""Title, level from 1, position."""

_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1+")
_RST = frozenset({".rst", ".rest"})
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
_ORG_TITLE = re.compile(r"(?im)^#\+title:[ \t]*(.+)$")
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
    headings = list(_rest(text)) if suffix in _RST else []
    if suffix in _FORMATS:
        blocks, pattern = _FORMATS[suffix]
        bare = blocks.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        headings = [
            (" ".join(m[2].split()), _LATEX_LEVELS.get(m[1], len(m[1])), m.start())
            for m in pattern.finditer(bare)
        ]
    stated = _ORG_TITLE.search(text) if suffix == ".org" else None
    title = stated[1].strip() if stated else headings[0][0] if headings else ""
    return title, headings


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
    if len(lengths) < 2:
        return ()
    if lengths[-1] == 0:  # a form feed that ends the file starts no page
        lengths = [*lengths[:-2], lengths[-2] + 1]
    ends = list(itertools.accumulate(length + 1 for length in lengths))
    ends[-1] -= 1
    spans = map(Span, (0, *ends), ends)
    return tuple(map(Page, itertools.count(1), spans)) if len(lengths) > 1 else ()


RECORDS = frozenset({".jsonl", ".ndjson"})
"""Suffixes of files with a JSON value in each line."""

JSON = RECORDS | {".json", ".geojson", ".topojson", ".jsonld", ".har", ".webmanifest"}

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_KEPT = ('"', "\\")
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


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
        if character in _KEPT:
            return match[0]
        if character == "\n" and not by_line:
            return character
        return character if character >= " " else " "

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
    text = _TERMINAL.sub("", text).strip("\n")
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    return f"{'`' * (longest + 1)}{language}\n{text}\n{'`' * (longest + 1)}" if text.strip() else ""
