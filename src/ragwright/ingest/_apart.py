"""Documents read in a separate process, so that a hostile one cannot harm others.

Parsers of complex formats are native code, or a small file can make them use any amount of time and
memory. They run in worker processes within the limits ``max_memory`` and ``max_seconds``; a worker
serves many files. Text, Markdown and CSV are read here: their cost is linear in their size.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ..core import (
    RagwrightError,
    UnsupportedSourceError,
    WorkerEndedError,
    address_space,
    ask_worker,
    import_plugins_from,
    limit_work,
    plugin_folder,
    serve_requests,
)
from ._extract import Extract
from ._formats import PLAIN, choose, parse_file
from ._options import OURS, SourceOptions
from .ocr import (
    ScannedPage,
    ScanProgress,
    engine_name,
    faults_of,
    image_extract,
    may_recognise,
    recognise,
)
from .parsers import parser_of

_ARCHIVE = b"PK\x03\x04"
"""First bytes of a zip file, whose directory alone may be a bomb."""

_WAITS = 2
"""A parser of another package may wait, rather than work, for so many times `max_seconds`."""

_SPENT = 300_000_000
"""Bytes that a worker may keep between files; one that keeps more is replaced."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a known kind; if the kind is empty, the worker detects it.

    ``scans`` are the pages of a PDF that OCR has read; None where it may not read any.
    """

    where: str
    kind: str
    data: bytes
    scans: Mapping[int, ScannedPage] | None = None


_Answer: TypeAlias = tuple[Extract | RagwrightError, bool]
"""The result, and whether the worker kept too much memory."""


def extract_bytes(
    name: str, data: bytes, options: SourceOptions, progress: ScanProgress | None = None
) -> Extract:
    """Read a file by its content; the suffix decides only between kinds of text.

    Images and pages without a text layer are read by OCR where it is installed.

    Args:
        name: Id of the file; its suffix is a hint to the format.
        data: The whole file.
        options: Limits and settings.
        progress: Counts the pages that OCR reads.

    Raises:
        MalformedSourceError: Damaged, or not of the kind that its name says.
        UnsupportedSourceError: No reader knows it, or reading it takes more than `max_memory` or
            `max_seconds`.
        MissingExtraError: ``ocr: always``, and OCR is not installed.
        SourceError: Any other reason, as the format's reader says.
    """
    progress = progress or ScanProgress()
    kind = "" if data.startswith(_ARCHIVE) else choose(name, data, options)
    if kind in PLAIN:
        return parse_file(name, kind, data, options)
    recognising = kind in ("image", "pdf") and may_recognise(options)
    if kind == "image" and recognising:
        return image_extract(name, recognise(name, "image", data, options, progress))
    if kind == "image":
        never = options.ocr == "never"
        raise UnsupportedSourceError(
            "images are read by text recognition (OCR), which is "
            + ("switched off (`ocr: never`)" if never else "not installed"),
            where=name,
            hint="leave it out with `exclude`"
            + ("" if never else ", or read it: pip install 'ragwright[ocr]'"),
        )
    if kind != "pdf" or parser_of(options, kind):
        return _apart(_File(name, kind, data), options, progress)
    extract = _apart(_File(name, kind, data, {} if recognising else None), options, progress)
    if not extract.unread:
        return extract
    if not recognising:
        progress.unread += not engine_name() and options.ocr != "never"
        return extract
    scans = recognise(name, kind, data, options, progress, extract.unread)
    faults = faults_of(scans)
    if len(faults) == len(scans) and not extract.text:
        raise faults[0]
    return _apart(_File(name, kind, data, scans), options, progress)


def main_part(html: str, where: str, options: SourceOptions) -> Extract:
    """Return the main part of a web page; raises as :func:`extract_bytes`."""
    page = _File(where, "html", html.encode(errors="replace"))
    options = replace(options, main_text=True, encoding="utf-8", parser=OURS)
    return _apart(page, options, ScanProgress())


def _apart(task: _File, options: SourceOptions, progress: ScanProgress) -> Extract:
    """Read a document in a worker; ``progress`` names it meanwhile, and its page."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; "
        f"serve({plugin_folder()!r})"
    )
    progress.current = task.where
    try:
        answer: _Answer = ask_worker(
            ("-P", "-c", code),
            (task, options),
            options.max_seconds,
            lambda a: bool(a[1]),
            partial(setattr, progress, "current"),
        )
    except WorkerEndedError as error:
        called = f"the parser {options.parser!r}" if parser_of(options) else ""
        key = "max_memory" if error.reason else "max_seconds"
        raise UnsupportedSourceError(
            f"{called or 'its parser'} crashed, or needed more than `max_memory` "
            f"({options.max_memory:,} bytes): {error.reason}"
            if error.reason
            else f"{called or 'reading it'} took longer than `max_seconds` "
            f"({options.max_seconds:g} s of processor time)",
            where=task.where,
            hint=f"if you trust the file, raise `{key}`",
        ) from error
    finally:
        progress.current = ""
    result = answer[0]
    if isinstance(result, RagwrightError):
        raise result
    return result


def serve(plugins: str = "") -> None:
    """Run as a worker: read documents until there are no more requests.

    ``plugins`` is the folder that modules of parsers may be imported from.
    """
    import_plugins_from(plugins)
    parse_file("warm.txt", "text", b"warm", SourceOptions())
    before = address_space()

    def answer(request: tuple[_File, SourceOptions]) -> _Answer:
        task, options = request
        parser = parser_of(options)
        own = 0 if parser is None else parser.room
        room = options.max_memory + 3 * len(task.data) + own
        waiting = _WAITS * options.max_seconds if parser is not None else 0.0
        result: Extract | RagwrightError
        try:
            with limit_work(before and before + room, options.max_seconds, waiting):
                result = parse_file(task.where, task.kind, task.data, options, task.scans)
        except RagwrightError as error:
            result = error
        except MemoryError:
            result = UnsupportedSourceError(
                f"reading it takes more than `max_memory` ({options.max_memory:,} bytes)",
                where=task.where,
                hint="if you trust the file, raise `max_memory`",
            )
        return result, address_space() > before + _SPENT + own

    serve_requests(answer)
