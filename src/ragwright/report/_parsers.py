"""Parsers of one file beside each other: a table, JSON, and one HTML file without scripts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..core import counted
from ..ingest import Look, ParsedBy, Piece
from ._page import stylesheet
from ._text import text_table

if TYPE_CHECKING:
    from jinja2 import Template

_MOST_PIECES = 400
"""Blocks of a page and a parser that are shown; the others are counted."""


def parsers_json(look: Look) -> dict[str, Any]:
    """The comparison as data: counts of each parser, and its text by page."""
    return {
        "file": look.name,
        "parsers": [
            {
                "parser": parsed.parser,
                "error": parsed.error.what if parsed.error else None,
                "seconds": round(parsed.seconds, 3),
                "words": parsed.words,
                "headings": parsed.headings,
                "tables": parsed.tables,
                "pages_placed": parsed.placed,
                "pages": [[_piece_json(piece) for piece in page] for page in parsed.pages],
            }
            for parsed in look.parsed
        ],
    }


def _piece_json(piece: Piece) -> dict[str, Any]:
    if piece.rows:
        return {"rows": [list(row) for row in piece.rows]}
    return {"text": piece.text, **({"level": piece.level} if piece.level else {})}


def parsers_table(look: Look, width: int = 80) -> str:
    """The counts of each parser as text, and why one failed."""
    rows = [("parser", "words", "headings", "tables", "seconds")]
    for parsed in look.parsed:
        counts = (parsed.words, parsed.headings, parsed.tables)
        words, headings, tables = ("–" if parsed.error else f"{count:,}" for count in counts)
        rows.append((parsed.parser, words, headings, tables, f"{parsed.seconds:.1f}"))
    lines = [text_table(rows, right=range(1, 5), width=width)]
    lines += [f"{p.parser}: {p.error}" for p in look.parsed if p.error]
    return "\n".join(lines)


def parsers_page(look: Look) -> str:
    """The whole file: counts, then page by page the picture and what each parser read."""
    numbers = max([len(look.pictures), *(len(parsed.pages) for parsed in look.parsed)])
    pages = [
        {
            "number": number + 1,
            "picture": _encoded(look.pictures, number),
            "sides": [_side(parsed, number) for parsed in look.parsed if not parsed.error],
        }
        for number in range(numbers)
    ]
    text = _parsers_template().render(
        look=look,
        verdict=_parsers_verdict(look.parsed),
        pages=pages,
        counted=counted,
        style=stylesheet() + _parsers_file("parsers.css"),
        policy="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'",
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _parsers_verdict(parsed: Sequence[ParsedBy]) -> str:
    read = sum(not p.error for p in parsed)
    every = counted(len(parsed), "parser")
    if read == len(parsed):
        return f"{every} read the file"
    return f"{read} of {every} could read the file" if read else "No parser could read the file"


def _encoded(pictures: Sequence[bytes], number: int) -> str:
    return base64.b64encode(pictures[number]).decode() if number < len(pictures) else ""


def _side(parsed: ParsedBy, number: int) -> dict[str, Any]:
    pieces = parsed.pages[number] if number < len(parsed.pages) else ()
    return {
        "parser": parsed.parser,
        "pieces": pieces[:_MOST_PIECES],
        "more": max(0, len(pieces) - _MOST_PIECES),
    }


@cache
def _parsers_template() -> Template:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({"parsers.html": _parsers_file("parsers.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("parsers.html")


def _parsers_file(name: str) -> str:
    return (files("ragwright.report") / "data" / name).read_text("utf-8")
