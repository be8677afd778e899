"""Pages recognised one by one in a worker process, so that one bad page harms no other."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TypeAlias

from ...core import (
    EmptySourceError,
    RagwrightError,
    UnsupportedSourceError,
    WorkerEndedError,
    address_space,
    ask_worker,
    limit_work,
    require,
    serve_requests,
)
from .._extract import Extract, TextBuilder
from .._options import SourceOptions
from .._pdf_layout import Line, body_size, paragraphs
from ._engine import OcrEngine, sort_lines
from ._pictures import IMAGES, picture_of

_SIDE_BY_SIDE = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Pages of a file that are recognised at once, each by a process of its own (about 0.8 GB)."""
_MODELS_ROOM = 2_000_000_000
"""Address space of the models and their work on one page, in addition to `max_memory`."""


@dataclass(frozen=True, slots=True)
class ScannedPage:
    """What OCR read on a page.

    Attributes:
        lines: Lines in reading order, without those below `ocr_confidence`.
        confidence: Mean confidence of the lines, by their characters; 0 without lines.
        left_out: Lines below `ocr_confidence`.
        pages: Pages of the file.
        fault: Why the page could not be read; None if it was.
    """

    lines: tuple[Line, ...] = ()
    confidence: float = 0.0
    left_out: int = 0
    pages: int = 1
    fault: RagwrightError | None = None


@dataclass(slots=True)
class ScanProgress:
    """Counters of OCR, for a progress bar and a note; can be read from any thread.

    Attributes:
        pages: Pages read so far, in ``seconds``.
        files: Files with such pages.
        current: File under way and its page, empty if none is.
        unread: Files that hold pages without text, which were not read since OCR is not installed.
    """

    pages: int = 0
    seconds: float = 0.0
    files: int = 0
    current: str = ""
    unread: int = 0

    def add(self, other: ScanProgress) -> None:
        """Add the counters of another process."""
        self.pages += other.pages
        self.seconds += other.seconds
        self.files += other.files
        self.unread += other.unread

    def taken(self) -> ScanProgress:
        """Return the counters so far, and set them to 0."""
        counters = replace(self, current="")
        self.pages = self.files = self.unread = 0
        self.seconds = 0.0
        return counters


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One page to recognise."""

    where: str
    kind: str
    data: bytes
    page: int


_Answer: TypeAlias = tuple[ScannedPage | RagwrightError, bool, float]
"""The result, whether the worker is to be replaced, and the seconds of processor time it took."""


@dataclass(slots=True)
class _Budget:
    """The seconds of processor time that OCR of a file may still take, shared by its pages."""

    left: float


def recognise(
    where: str,
    kind: str,
    data: bytes,
    options: SourceOptions,
    progress: ScanProgress,
    pages: Sequence[int] = (),
) -> dict[int, ScannedPage]:
    """Recognise pages, by number; without ``pages`` every page of the file.

    A page that cannot be read has a fault, and the others are read all the same.

    Args:
        where: Name of the file.
        kind: ``pdf`` or ``image``.
        data: The whole file.
        options: Limits for the file, and settings of OCR. Pages that are not reached within
            `max_seconds` of processor time have a fault.
        progress: Counts pages and seconds.
        pages: Numbers from 1.
    """
    sheets = [_Sheet(where, kind, data, page) for page in pages or (1,)]
    scans: dict[int, ScannedPage] = {}
    read = partial(_page, options=options, budget=_Budget(options.max_seconds))
    progress.current = where
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="ragwright-ocr") as pool:
        try:
            _collect(pool, sheets, read, progress, scans)
            if not pages and scans[1].pages > 1:
                more = [_Sheet(where, kind, data, n) for n in range(2, scans[1].pages + 1)]
                _collect(pool, more, read, progress, scans)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    progress.current = ""
    if any(scan.fault is None for scan in scans.values()):
        progress.files += 1
    return scans


def _collect(
    pool: ThreadPoolExecutor,
    sheets: Sequence[_Sheet],
    read: Callable[[_Sheet], ScannedPage],
    progress: ScanProgress,
    scans: dict[int, ScannedPage],
) -> None:
    """Recognise pages side by side; adds them to ``scans`` in order."""
    before = time.monotonic()
    for sheet, scan in zip(sheets, pool.map(read, sheets), strict=True):
        scans[sheet.page] = scan
        now = time.monotonic()
        if scan.fault is None:
            progress.pages += 1
            progress.seconds += now - before
        before = now


def _page(sheet: _Sheet, options: SourceOptions, budget: _Budget) -> ScannedPage:
    left = budget.left
    if left <= 0:
        return ScannedPage(fault=_too_long(sheet, options))
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    try:
        answer: _Answer = ask_worker(
            ("-P", "-c", code), (sheet, options, left), left, lambda a: bool(a[1])
        )
    except WorkerEndedError as error:
        if not error.reason:
            budget.left -= left
            return ScannedPage(fault=_too_long(sheet, options))
        reason = (
            f"OCR crashed, or needed more than `max_memory` ({options.max_memory:,} bytes) beside "
            f"its models: {error.reason}"
        )
        return ScannedPage(fault=_unsupported(reason, sheet))
    budget.left -= answer[2]
    result = answer[0]
    return ScannedPage(fault=result) if isinstance(result, RagwrightError) else result


def _too_long(sheet: _Sheet, options: SourceOptions) -> UnsupportedSourceError:
    return UnsupportedSourceError(
        f"OCR of the file took longer than `max_seconds` ({options.max_seconds:g} s of processor "
        "time)",
        where=f"{sheet.where}, page {sheet.page}",
        hint="raise `max_seconds` of the source, or split the file",
    )


def _unsupported(reason: str, sheet: _Sheet) -> UnsupportedSourceError:
    return UnsupportedSourceError(
        reason, where=f"{sheet.where}, page {sheet.page}", hint="reduce the page, or `ocr_pixels`"
    )


@cache
def _engine() -> OcrEngine:
    return OcrEngine()


def serve() -> None:
    """Run as a worker: recognise pages until there are no more requests."""
    before = address_space()

    def answer(request: tuple[_Sheet, SourceOptions, float]) -> _Answer:
        sheet, options, seconds = request
        begun = time.process_time()
        room = _MODELS_ROOM + options.max_memory + 3 * len(sheet.data)
        result: ScannedPage | RagwrightError
        try:
            with limit_work(before and before + room, seconds):
                result = _recognised(sheet, options)
        except RagwrightError as error:
            result = error
        except MemoryError:
            reason = f"OCR takes more than `max_memory` ({options.max_memory:,} bytes)"
            result = _unsupported(reason, sheet)
        except Exception as error:  # the engine met unforeseen pixels
            result = _unsupported(f"OCR failed: {type(error).__name__}: {error}", sheet)
        taken = time.process_time() - begun
        return result, address_space() > before + _MODELS_ROOM, taken

    serve_requests(answer)


def _recognised(sheet: _Sheet, options: SourceOptions) -> ScannedPage:
    picture = picture_of(sheet.data, sheet.kind, sheet.page, options, sheet.where)
    sights = _engine().read(picture.pixels)
    kept = [s for s in sights if s.confidence >= options.ocr_confidence]
    weight = sum(len(s.text) for s in kept)
    return ScannedPage(
        tuple(sort_lines(kept, picture.pixels.shape[0], picture.points)),
        sum(s.confidence * len(s.text) for s in kept) / weight if weight else 0.0,
        len(sights) - len(kept),
        picture.pages,
    )


@cache
def engine_name() -> str:
    """Return the installed engine with its version; empty without the extra ``[ocr]``."""
    if any(find_spec(name) is None for name in ("rapidocr", "onnxruntime", "pypdfium2")):
        return ""
    try:
        return f"rapidocr {version('rapidocr')}"
    except PackageNotFoundError:
        return "rapidocr"


def may_recognise(options: SourceOptions) -> bool:
    """Return True if scanned pages and images are to be read.

    Raises:
        MissingExtraError: ``ocr: always``, and the engine is not installed.
    """
    if options.ocr == "always" and not engine_name():
        for module in ("rapidocr", "onnxruntime", "pypdfium2"):
            require(module, "ocr", "reading scans and images (`ocr: always`)")
    return options.ocr != "never" and bool(engine_name())


def about_scans(scans: Mapping[int, ScannedPage]) -> dict[str, object]:
    """Return the metadata of a document with recognised pages; empty without any.

    ``ocr`` names the engine, ``ocr_pages`` the pages, ``ocr_confidence`` the mean confidence of
    their characters (0 to 1), ``ocr_left_out`` the number of lines that were too uncertain.
    """
    read = {number: scan for number, scan in scans.items() if scan.lines}
    if not read:
        return {}
    sizes = {number: sum(len(line.text) for line in scan.lines) for number, scan in read.items()}
    total = sum(scan.confidence * sizes[number] for number, scan in read.items())
    return {
        "ocr": engine_name(),
        "ocr_pages": [str(number) for number in sorted(read)],
        "ocr_confidence": round(total / sum(sizes.values()), 3),
        "ocr_left_out": sum(scan.left_out for scan in scans.values()) or None,
    }


def faults_of(scans: Mapping[int, ScannedPage]) -> tuple[RagwrightError, ...]:
    """Return why pages could not be read."""
    return tuple(scan.fault for _, scan in sorted(scans.items()) if scan.fault is not None)


def image_extract(name: str, scans: Mapping[int, ScannedPage]) -> Extract:
    """Extract the text of an image file, with a page for each frame; it may be empty.

    Raises:
        RagwrightError: No frame could be read.
    """
    faults = faults_of(scans)
    if len(faults) == len(scans):
        raise faults[0]
    pages = [paragraphs(scan.lines) for _, scan in sorted(scans.items())]
    size = body_size(pages)
    builder = TextBuilder()
    for blocks in pages:
        if len(pages) > 1:
            builder.page()
        for block in blocks:
            if block.is_heading(size):
                builder.heading(block.text, 1, mark=False)
            else:
                builder.add(block.text)
    suffix = PurePosixPath(name.rpartition("#")[2] or name).suffix.lower()
    extract = builder.extract(IMAGES.get(suffix, "image/png"), about_scans(scans))
    return replace(extract, faults=faults)


def nothing_recognised(name: str) -> EmptySourceError:
    """Return the error for an image, or a PDF without text layer, in which OCR found no text."""
    return EmptySourceError(
        "OCR found no text in it",
        where=name,
        hint="raise `ocr_pixels` if its print is small, or leave it out with `exclude`",
    )


def require_text(extract: Extract, name: str) -> Extract:
    """Return the extract if it holds text.

    Raises:
        EmptySourceError: OCR found none.
    """
    if not extract.text and not extract.faults:
        raise nothing_recognised(name)
    return extract
