"""Plain text, logs and source code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from ..core import Page, Span
from ._encoding import decode
from ._extract import Extract, sections_of
from ._json import JSON, RECORDS, plain_json
from ._language import guess_language
from ._normalise import clean_metadata, normalise
from ._options import SourceOptions
from ._pdf_layout import join_broken_words
from ._sniff import suffix_of

Heading = tuple[str, int, int]
"""Title, level from 1, position."""

_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1+")
_FENCED = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|={4,}|\*{4,}|_{4,}|```|\|===)\s*")
_ADOC = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_ORG = re.compile(r"(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING)[ \t]+)?(?:\[#.\][ \t]+)?(.*\S)")
_ORG_TAGS = re.compile(r"[ \t]+:[\w@#%:]+:[ \t]*$")
_ORG_TITLE = re.compile(r"(?im)^#\+title:[ \t]*(.+)$")
_WIKI = re.compile(r"(={1,6})[ \t]*([^=\s](?:.*[^=\s])?)[ \t]*\1[ \t]*")
_LATEX = re.compile(r"\\(chapter|section|subsection|subsubsection)\*?\{([^{}]+)\}")
_LATEX_LEVELS = {"chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}


def headings_of(text: str, suffix: str) -> tuple[str, list[Heading]]:
    """Return the title and the headings of a text in the format of its suffix.

    A text of another format has neither. The title is what the format states, else the first
    heading.
    """
    find = _FORMATS.get(suffix)
    if find is None:
        return "", []
    headings = list(find(text))
    stated = _ORG_TITLE.search(text) if suffix == ".org" else None
    title = stated[1].strip() if stated else headings[0][0] if headings else ""
    return title, headings


def _lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for line in text.split("\n"):
        yield at, line
        at += len(line) + 1


def _rest(text: str) -> Iterator[Heading]:
    """Find lines with an underline at least as long; each style has the level of its first use."""
    styles: list[tuple[str, bool]] = []
    lines = [(0, ""), *_lines(text), (len(text), "")]
    for (_, above), (at, title), (_, below) in zip(lines, lines[1:], lines[2:], strict=False):
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


def _asciidoc(text: str) -> Iterator[Heading]:
    fence = ""
    for at, line in _lines(text):
        if fence or _FENCED.fullmatch(line):
            bare = line.rstrip()
            fence = "" if bare == fence else fence or bare
        elif match := _ADOC.fullmatch(line):
            yield match[2].rstrip(" =#\t"), len(match[1]), at


def _org(text: str) -> Iterator[Heading]:
    block = False
    for at, line in _lines(text):
        begins = line.lstrip().lower()
        if begins.startswith(("#+begin", "#+end")):
            block = begins.startswith("#+begin")
        elif not block and (match := _ORG.fullmatch(line)):
            yield _ORG_TAGS.sub("", match[2]), len(match[1]), at


def _wiki(text: str) -> Iterator[Heading]:
    for at, line in _lines(text):
        if match := _WIKI.fullmatch(line):
            yield match[2], len(match[1]), at


def _latex(text: str) -> Iterator[Heading]:
    for match in _LATEX.finditer(text):
        yield " ".join(match[2].split()), _LATEX_LEVELS[match[1]], match.start()


_FORMATS: dict[str, Callable[[str], Iterator[Heading]]] = {
    ".rst": _rest, ".rest": _rest, ".adoc": _asciidoc, ".asciidoc": _asciidoc, ".asc": _asciidoc,
    ".org": _org, ".wiki": _wiki, ".mediawiki": _wiki, ".tex": _latex,
}  # fmt: skip


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
        decoded = replace(decoded, text=plain_json(decoded.text, by_line=suffix in RECORDS))
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
    pages = []
    start = 0
    for number, length in enumerate(lengths, 1):
        end = start + length + (1 if number < len(lengths) else 0)
        pages.append(Page(number, Span(start, end)))
        start = end
    return tuple(pages) if len(pages) > 1 else ()
