"""Formats: the reader of a file by its content; parsers of other packages, as a setting."""

from __future__ import annotations

import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..core import (
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    MissingExtraError,
    RagwrightError,
    UnsupportedSourceError,
    count_noun,
    make_addition,
)
from ._archive import read_epub, read_odt
from ._docx import read_docx, read_pptx
from ._encoding import (
    BINARY,
    LEFT_OUT,
    NAMES,
    RARE,
    SUFFIXES,
    is_element,
    sniff,
    sniff_mail,
    suffix_of,
)
from ._extract import Extract, TextBuilder
from ._html import read_html
from ._markdown import read_csv, read_eml, read_markdown, read_mbox
from ._ocr import ScannedPage
from ._options import OURS, SourceOptions
from ._pdf import read_pdf
from ._plain import CODE, read_notebook, read_plain, read_xml
from ._workbook import read_sheet

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
    "odp": "application/vnd.oasis.opendocument.presentation",
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
    return make_addition("parsers", name, Parser, "parser")  # type: ignore[type-abstract]


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


_PARSERS: dict[str, Callable[[bytes, str, SourceOptions], Extract]] = {
    "docx": read_docx,
    "pptx": read_pptx,
    "odt": read_odt,
    "epub": read_epub,
    "html": read_html,
    "xml": read_xml,
    "markdown": read_markdown,
    "eml": read_eml,
    "mbox": read_mbox,
    "notebook": read_notebook,
    "csv": read_csv,
    "sheet": read_sheet,
    "text": read_plain,
}


PLAIN = frozenset({"text", "markdown", "csv"})
"""Kinds that ragwright itself always reads."""


def parse_file(
    name: str,
    kind: str,
    data: bytes,
    options: SourceOptions,
    scans: Mapping[int, ScannedPage] | None = None,
) -> Extract:
    """Read a file's bytes with the reader of its kind; an empty kind is chosen here.

    ``scans`` are the pages of a PDF that OCR has read; None where it may not read any.

    Raises:
        EmptySourceError: Neither text nor attachments.
        MalformedSourceError: Damaged, or not what the name says and not readable as it is.
        SourceError: Any other reason, as the format's reader says.
    """
    suffix = suffix_of(name)
    kind = kind or choose(name, data, options)
    parser = None if kind in PLAIN else parser_of(options, kind)
    if parser is not None:
        return parse_by(parser, data, name, kind, options)
    if kind in RARE:
        raise UnsupportedSourceError(
            f"ragwright itself does not read this file: it is {NAMES[kind]}",
            where=name,
            hint="save it in a newer format, or set `parser: kreuzberg` for its source "
            "(pip install kreuzberg), or leave it out with `exclude`",
        )
    try:
        if kind == "pdf":
            extract = read_pdf(data, name, options, scans)
        else:
            extract = _PARSERS[kind](data, name, options)
    except (RagwrightError, MemoryError):
        raise
    except Exception as error:  # a parser met unforeseen bytes
        raise MalformedSourceError(
            f"{NAMES[kind]} that cannot be parsed ({type(error).__name__}: {error})",
            where=name,
            hint="open it in its own program and save it again",
        ) from error
    if kind != "pdf" and not extract.attachments and not extract.text.strip():
        raise EmptySourceError(
            f"the file contains no text: it is {NAMES[kind]}",
            where=name,
            hint="remove it or fill it; text in pictures needs text recognition first",
        )
    files = extract.text.count(LEFT_OUT) if "data:" in extract.text else 0
    if files:
        fault = UnsupportedSourceError(
            f"{count_noun(files, 'file')} in data: addresses left out",
            where=name,
            hint="save what they hold as files if its text matters",
        )
        extract = replace(extract, faults=(*extract.faults, fault))
    named = SUFFIXES.get(suffix, "")
    if named and named != kind:
        return replace(extract, metadata={**extract.metadata, "detected_format": kind})
    return extract


def choose(name: str, data: bytes, options: SourceOptions) -> str:
    """Choose the reader of a file, by content first.

    Raises:
        EncryptedSourceError: An Office file locked by a password.
        MalformedSourceError: Content and name disagree and no reader knows the content.
        UnsupportedSourceError: No reader knows the content, and the name shows none.
    """
    suffix = suffix_of(name)
    named = SUFFIXES.get(suffix, "")
    if not data:
        return "text"  # this reader reports that the file is empty
    detected = sniff(data, suffix)
    if detected == "locked":
        raise EncryptedSourceError(
            "the Office file is protected by a password",
            where=name,
            hint="save a copy without the password",
        )
    if detected == "text" and named not in BINARY:
        if not named and suffix not in CODE:
            named = "xml" if is_element(data) else sniff_mail(data)
        return named or "text"
    if detected in ("html", "xml"):
        if named in ("markdown", "csv", "eml") or (named, detected) == ("html", "xml"):
            return named
        return "text" if suffix in CODE and suffix != ".xml" else detected  # source stays source
    if detected in NAMES and detected != "text":
        return detected
    if detected == "" and options.encoding and named not in BINARY:
        return named or "text"  # the setting overrides detection
    detected = NAMES.get(detected, detected) or "binary data of no known kind"
    if named and (named != "text" or detected != "binary data of no known kind"):
        raise MalformedSourceError(
            f"the name says {NAMES[named]}, but the content is {detected}",
            where=name,
            hint="the file is damaged or has the wrong suffix: download it again or rename it",
        )
    raise UnsupportedSourceError(
        f"no reader for this file: it is {detected}",
        where=name,
        hint=f"to read the files in it, name the source zip://::{name}"
        if detected == "a zip archive"
        else "leave it out with `exclude`, or convert it to a format with text",
    )
