"""Plain text, logs and source code."""

from __future__ import annotations

from dataclasses import replace

from ..core import EmptySourceError, Page, Span
from ._encoding import decode
from ._extract import Extract, sections_of
from ._json import JSON, RECORDS, plain_json
from ._language import guess_language
from ._marked_headings import headings_of
from ._normalise import clean_metadata, normalise
from ._options import SourceOptions
from ._pdf_layout import join_broken_words

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


def read_plain(data: bytes, where: str, suffix: str, options: SourceOptions) -> Extract:
    """Read text unchanged but for codes of JSON and words that line ends split, which are joined.

    Form feeds separate pages. Linear in the size.

    Raises:
        EmptySourceError: Nothing but white space.
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode(data, where, options.encoding)
    if suffix in JSON:
        decoded = replace(decoded, text=plain_json(decoded.text, by_line=suffix in RECORDS))
    code = CODE.get(suffix, "")
    pieces = [normalise(piece) for piece in decoded.text.split("\f")]
    if not code:
        pieces = [join_broken_words(piece) for piece in pieces]
    text = "\n".join(pieces) if len(pieces) > 1 else pieces[0]
    if not text or text.isspace():
        raise EmptySourceError(
            "the file contains only white space", where=where, hint="remove it or fill it"
        )
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
