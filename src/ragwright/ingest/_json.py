"""JSON as text, with its characters instead of their codes; notebooks as their cells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..core import (
    MalformedSourceError,
    MissingExtraError,
)
from ._encoding import decode
from ._extract import Extract, TextBuilder
from ._html import parse_html
from ._options import SourceOptions

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
        cells = notebook.get("cells") or [
            cell for sheet in notebook["worksheets"] for cell in sheet["cells"]
        ]
        language = str(_deep(notebook, "metadata", "language_info", "name"))
        language = language or str(_deep(notebook, "metadata", "kernelspec", "language"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedSourceError(
            f"not a notebook: {type(error).__name__}: {error}", where=where, hint="save it again"
        ) from error
    builder = TextBuilder()
    for cell in cells:
        for block in _cell(cell, language.lower(), builder):
            builder.markdown(block)
    extract = builder.extract("application/x-ipynb+json", {"code_language": language.lower()})
    return replace(extract, faults=(*decoded.faults, *extract.faults))


def _deep(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value or ""


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _cell(cell: Mapping[str, Any], language: str, builder: TextBuilder) -> Iterator[str]:
    kind = cell.get("cell_type")
    source = _joined(cell.get("source", cell.get("input"))).strip("\n")
    _miss(builder, "image", len(cell.get("attachments") or ()))
    if kind == "heading":
        yield f"{'#' * int(cell.get('level') or 1)} {source}"
    elif kind != "code":
        yield source
    elif source.strip():
        yield _fenced(source, language)
    for output in cell.get("outputs") or ():
        yield _output(output, builder)


def _output(output: Mapping[str, Any], builder: TextBuilder) -> str:
    """Return what a cell printed: Markdown, a table, plain text, or the name of an error."""
    if "ename" in output:
        return _fenced(f"{output['ename']}: {output.get('evalue', '')}", "")
    data = output.get("data") or {  # version 3 has the kinds beside the others
        f"text/{'plain' if kind == 'text' else kind}": value
        for kind, value in output.items()
        if kind in ("text", "html", "latex", "markdown")
    }
    images = sum(kind.startswith("image/") or kind in ("png", "jpeg") for kind in data)
    _miss(builder, "image", images + sum(kind in output for kind in ("png", "jpeg", "svg")))
    for kind in ("text/markdown", "text/html", "text/latex", "text/plain"):
        text = _joined(data.get(kind))
        if kind == "text/html":
            text = _table(text)
        if text.strip():
            return _fenced(text, "") if kind == "text/plain" else text
    if data and not any(kind.startswith("image/") for kind in data):
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
