"""Plain text, logs and source code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from ..core import Page, Span
from ._encoding import decode
from ._extract import Extract, sections_of
from ._json import JSON, RECORDS, unescape_json
from ._language import guess_language
from ._normalise import clean_metadata, normalise
from ._options import SourceOptions
from ._pdf_layout import join_broken_words
from ._sniff import suffix_of

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
