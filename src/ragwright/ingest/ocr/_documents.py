"""Documents of recognised pages: what their metadata says, and the text of an image."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import PurePosixPath

from ...core import EmptySourceError, RagwrightError, require
from .._extract import Extract, TextBuilder
from .._language import guess_language
from .._normalise import clean_metadata
from .._options import SourceOptions
from .._pdf_layout import body_size, paragraphs
from ._pictures import IMAGES
from ._scans import ScannedPage


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
    text = builder.text()
    sections = builder.sections()
    suffix = PurePosixPath(name.rpartition("#")[2] or name).suffix.lower()
    return Extract(
        text=text,
        title=sections[0].title if sections and sections[0].span.start < 1000 else "",
        language=guess_language(text),
        media_type=IMAGES.get(suffix, "image/png"),
        pages=builder.pages() if len(pages) > 1 else (),
        sections=sections,
        metadata=clean_metadata(about_scans(scans)),
        faults=faults,
    )


def nothing_recognised(name: str) -> EmptySourceError:
    """Return the error for an image, or a PDF without text layer, in which OCR found no text."""
    return EmptySourceError(
        "OCR found no text in it",
        where=name,
        hint="raise `ocr_pixels` if its print is small, or leave it out with `exclude`",
    )


def with_text(extract: Extract, name: str) -> Extract:
    """Return the extract if it holds text.

    Raises:
        EmptySourceError: OCR found none.
    """
    if not extract.text and not extract.faults:
        raise nothing_recognised(name)
    return extract
