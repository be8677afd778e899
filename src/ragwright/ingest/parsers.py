"""Parsers of other packages, as a setting: each turns a file into Markdown."""

from __future__ import annotations

import importlib
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..core import (
    EmptySourceError,
    MalformedSourceError,
    MissingExtraError,
    PluginError,
    RagwrightError,
    load_addition,
)
from ._extract import Extract, TextBuilder
from ._options import OURS, SourceOptions

MEDIA_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "sheet": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "epub": "application/epub+zip",
    "html": "text/html",
    "eml": "message/rfc822",
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "rtf": "application/rtf",
    "msg": "application/vnd.ms-outlook",
}
"""Kinds of files that a parser may read, with their media types."""


class Parser(ABC):
    """Turns a file into Markdown; runs in a worker process within the limits of the source.

    Attributes:
        name: As settings write it.
        package: The distribution that must be installed. Its version is part of the key of the
            reading settings, so that another version reads files again; empty for none.
        install: Argument of ``pip install`` that brings it, if not the package alone.
        kinds: Kinds of files that it reads (keys of ``MEDIA_TYPES``); others
            are read by ragwright.
        room: Address space that it takes in addition to ``max_memory``, in bytes.
    """

    name: str = ""
    package: str = ""
    install: str = ""
    kinds: frozenset[str] = frozenset({"pdf"})
    room: int = 2_000_000_000

    @abstractmethod
    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return Markdown: a text per page, or a single text if the pages are not known.

        Args:
            data: The whole file.
            name: Its id, for formats that a parser tells by the suffix.
            kind: One of ``kinds``.

        Raises:
            Exception: Of any kind; the file fails with it, and the others are read.
        """


class MarkItDown(Parser):
    """MarkItDown of Microsoft; it gives no page numbers."""

    name = package = "markitdown"
    install = "'markitdown[pdf,docx,pptx,xlsx]'"
    kinds = frozenset({"pdf", "docx", "pptx", "sheet", "epub", "html"})

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return one text."""
        engine: Any = importlib.import_module("markitdown")
        about = engine.StreamInfo(extension=".xlsx" if kind == "sheet" else f".{kind}")
        read = engine.MarkItDown(enable_plugins=False)
        return [read.convert_stream(io.BytesIO(data), stream_info=about).markdown]


class Kreuzberg(Parser):
    """Kreuzberg, without text recognition; it gives no page numbers in Markdown."""

    name = package = "kreuzberg"
    kinds = frozenset(MEDIA_TYPES)
    room = 4_000_000_000

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return one text."""
        engine: Any = importlib.import_module("kreuzberg")
        return [
            engine.extract_bytes_sync(
                data,
                MEDIA_TYPES[kind],
                config=engine.ExtractionConfig(output_format="markdown", use_cache=False),
            ).content
        ]


@cache
def _parser(name: str) -> Parser:
    """Return the parser of a name, or of ``module:object``."""
    parser = load_addition("parsers", name, where="parser")
    if inspect.isclass(parser) and issubclass(parser, Parser):
        parser = parser()
    if not isinstance(parser, Parser):
        raise PluginError(
            f"{name!r} is not a parser",
            where="parser",
            hint="subclass ragwright.ingest.Parser",
        )
    return parser


def parser_of(options: SourceOptions, kind: str = "") -> Parser | None:
    """Return the parser that reads files of a kind, any if empty; None if ragwright does.

    Raises:
        PluginError: The settings name something that is not a parser.
    """
    parser = None if options.parser in ("", OURS) else _parser(options.parser)
    return parser if parser and (not kind or kind in parser.kinds) else None


def check_parser(options: SourceOptions) -> None:
    """Check that the parser of a source is installed.

    Raises:
        MissingExtraError: It is not; the error says how to install it.
        PluginError: The settings name something that is not a parser.
    """
    parser = parser_of(options)
    if parser is not None and parser.package and not _installed_version(parser):
        raise MissingExtraError(
            f"`parser: {options.parser}` needs the package {parser.package!r}, "
            "which is not installed",
            hint=f"pip install {parser.install or parser.package}",
        )


def parser_version(options: SourceOptions) -> str:
    """Return name and version of the parser of a source; empty for ragwright's own reader."""
    parser = parser_of(options)
    return f"{options.parser} {_installed_version(parser)}".rstrip() if parser is not None else ""


def _installed_version(parser: Parser) -> str:
    try:
        return version(parser.package) if parser.package else ""
    except PackageNotFoundError:
        return ""


def parse_by(parser: Parser, data: bytes, name: str, kind: str, options: SourceOptions) -> Extract:
    """Read a file with a parser of another package.

    Raises:
        EmptySourceError: The parser returned no text.
        MalformedSourceError: The parser failed, or returned something else than texts.
        MissingExtraError: It is not installed, or lacks its models.
    """
    check_parser(options)
    called = options.parser
    try:
        pages = parser.parse(data, name, kind)
    except (RagwrightError, MemoryError):
        raise
    except Exception as error:
        raise MalformedSourceError(
            f"the parser {called!r} failed: {type(error).__name__}: {error}"[:500],
            where=name,
            hint="set `parser: ours` for this source, or leave the file out with `exclude`",
        ) from error
    if isinstance(pages, str) or not all(isinstance(page, str) for page in pages):
        raise MalformedSourceError(
            f"the parser {called!r} did not return a list of texts",
            where=name,
            hint="this is a fault of the parser; its `parse` returns a text per page",
        )
    builder = TextBuilder()
    for page in pages:
        if len(pages) > 1:
            builder.page()
        builder.markdown(page)
    if not builder.length:
        raise EmptySourceError(
            f"the parser {called!r} returned no text",
            where=name,
            hint="set `parser: ours` for this source; it reads scans by text recognition (OCR)",
        )
    return builder.extract(MEDIA_TYPES.get(kind, ""), {"parser": called})
