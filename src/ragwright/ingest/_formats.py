"""Formats: selects the reader of a file by its content, and runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..core import (
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
    count_noun,
)
from ._archive import read_epub, read_odt
from ._encoding import BINARY, NAMES, RARE, SUFFIXES, is_element, sniff, sniff_mail, suffix_of
from ._extract import Extract
from ._html import read_html
from ._markdown import read_eml, read_markdown, read_mbox
from ._normalise import LEFT_OUT
from ._ocr import ScannedPage
from ._options import SourceOptions
from ._pdf import read_pdf
from ._plain import CODE, read_notebook, read_plain, read_xml
from ._tabular import read_csv
from .office import read_docx, read_pptx, read_sheet
from .parsers import parse_by, parser_of

_PARSERS: dict[str, Callable[[bytes, str, SourceOptions], Extract]] = {
    "docx": read_docx,
    "pptx": read_pptx,
    "odt": read_odt,
    "odp": read_odt,
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
    if detected == "text":
        if named in BINARY:
            raise _disagree(name, named, NAMES["text"])
        if not named and suffix not in CODE:
            return "xml" if is_element(data) else sniff_mail(data) or "text"
        return named or "text"
    if detected in ("html", "xml"):
        if named in ("markdown", "csv", "eml") or (named, detected) == ("html", "xml"):
            return named
        return "text" if suffix in CODE and suffix != ".xml" else detected  # source stays source
    if detected in NAMES:
        return detected
    if detected == "" and options.encoding and named not in BINARY:
        return named or "text"  # the setting overrides detection
    if named and (detected or named != "text"):
        raise _disagree(name, named, detected or "binary data of no known kind")
    hint = "leave it out with `exclude`, or convert it to a format with text"
    if detected == "a zip archive":
        hint = f"to read the files in it, name the source zip://::{name}"
    raise UnsupportedSourceError(
        f"no reader for this file: it is {detected or 'binary data of no known kind'}",
        where=name,
        hint=hint,
    )


def _disagree(name: str, named: str, detected: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"the name says {NAMES[named]}, but the content is {detected}",
        where=name,
        hint="the file is damaged or has the wrong suffix: download it again or rename it",
    )
