"""Parsers of other packages: each turns a file into Markdown, as a setting."""

from ._engines import Docling, EdgeParse, Kreuzberg, MarkItDown
from ._reading import Parser, check_parser, parse_by, parser_of, parser_version

__all__ = [
    "Docling",
    "EdgeParse",
    "Kreuzberg",
    "MarkItDown",
    "Parser",
    "check_parser",
    "parse_by",
    "parser_of",
    "parser_version",
]
