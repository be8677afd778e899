"""Text recognition (OCR): images and scanned pages become lines with their place."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    UnsupportedSourceError,
    require,
)
from ._extract import Extract
from ._options import SourceOptions
from ._pdf_layout import Line, group_runs, groups_apart

IMAGES: Mapping[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}
"""Suffix of an image file that is read -> its media type."""

_SIMPLE = ("1", "L", "RGB", "CMYK")
"""Modes of Pillow that are reduced before they are converted."""

Pixels = NDArray[np.uint8]

_PACKAGES = ("rapidocr", "onnxruntime", "pypdfium2")


@dataclass(frozen=True, slots=True)
class ScannedPage:
    """What OCR read on a page.

    Attributes:
        lines: Lines in reading order, without uncertain ones.
        confidence: Mean confidence of the lines, by their characters; 0 without lines.
        left_out: Uncertain lines.
        pages: Pages of the file.
        fault: Why the page could not be read; None if it was.
    """

    lines: tuple[Line, ...] = ()
    confidence: float = 0.0
    left_out: int = 0
    pages: int = 1
    fault: RagwrightError | None = None


def read_page(data: bytes, kind: str, page: int, options: SourceOptions, where: str) -> ScannedPage:
    """Recognise a page of a ``pdf`` or ``image`` file, by its number from 1.

    Raises:
        MalformedSourceError: Truncated or damaged.
        UnsupportedSourceError: Decoding the image takes too much memory, or the engine failed.
    """
    main = require("rapidocr.main", "ocr", "reading scans and images")
    pixels, points, pages = _picture(data, kind, page, options, where)
    seen: list[tuple[Line, float]] = []
    try:
        with suppress(main.RapidOCRError):  # raised if the page has no text
            seen = _recognise_lines(pixels)
    except (RagwrightError, MemoryError):
        raise
    except Exception as error:  # the engine met unforeseen pixels
        raise UnsupportedSourceError(
            f"OCR failed: {type(error).__name__}: {error}",
            where=f"{where}, page {page}",
            hint="reduce the page, or `ocr_pixels`",
        ) from error
    kept = [(line, sure) for line, sure in seen if sure >= 0.5]
    return ScannedPage(
        tuple(_sort_lines([line for line, _ in kept], points)),
        fmean((sure for _, sure in kept), [len(line.text) for line, _ in kept]) if kept else 0.0,
        len(seen) - len(kept),
        pages,
    )


@cache
def engine_name() -> str:
    """Return the installed engine with its version; empty without the extra ``[ocr]``."""
    there = all(find_spec(name) is not None for name in _PACKAGES)
    return f"rapidocr {version('rapidocr')}" if there else ""


def may_recognise(options: SourceOptions) -> bool:
    """Return True if scanned pages and images are to be read.

    Raises:
        MissingExtraError: ``ocr: always``, and the engine is not installed.
    """
    if options.ocr == "always" and not engine_name():
        for module in _PACKAGES:
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


_MODELS = {
    "Det": "PP-OCRv6_det_small.onnx",
    "Cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    "Rec": "PP-OCRv6_rec_small.onnx",
}
"""Models that the package brings; their paths are given, so that it never downloads any."""

_MARGIN = 24
"""White pixels around a picture: the detector misses text that touches the border."""


@cache
def _engine() -> Any:
    """Return RapidOCR: PP-OCR models on onnxruntime."""
    main = require("rapidocr.main", "ocr", "reading scans and images")
    folder = Path(str(main.__file__)).parent / "models"
    parameters: dict[str, Any] = {
        f"{part}.model_path": str(folder / name) for part, name in _MODELS.items()
    }
    parameters |= {
        "Global.log_level": "critical",
        "Global.use_vertical_padding": False,
        # several pages side by side use cores better than several threads of a page
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }
    return main.RapidOCR(params=parameters)


def _recognise_lines(pixels: Pixels) -> list[tuple[Line, float]]:
    """Read the lines of a picture, with their confidence from 0 to 1, in no order.

    Places are in pixels from the bottom left. A page on its side is turned first.
    """
    engine = _engine()
    pixels = np.pad(pixels, ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0)), constant_values=255)
    boxes, cuts = _detect(engine, pixels)
    width, height = (np.linalg.norm(boxes[:, n] - boxes[:, 0], axis=1) for n in (1, 3))
    if height[height > 1.5 * width].sum() > width[width > 1.5 * height].sum():  # it is on its side
        pixels = np.ascontiguousarray(np.rot90(pixels))
        boxes, cuts = _detect(engine, pixels)
    votes = (
        cut.shape[1] * float(score) * (1 if label == "180" else -1)
        for cut, (label, score) in zip(cuts, engine.cls_and_rotate(cuts)[1].cls_res, strict=True)
    )
    down, across = pixels.shape[:2]
    if sum(votes) > 0:  # most of the text is upside down; longer lines count more
        # the corner at the bottom right becomes the one at the top left
        boxes = np.roll(np.array([across, down]) - boxes, 2, axis=1)
        cuts = [np.ascontiguousarray(cut[::-1, ::-1]) for cut in cuts]
    lines = engine.recognize_txt(cuts)
    corners = boxes @ _turn(boxes)
    return [
        (Line(text.strip(), left, right, down - bottom, down - top), round(float(score), 3))
        for text, score, (left, top), (right, bottom) in zip(
            lines.txts,
            lines.scores,
            corners.min(axis=1).tolist(),
            corners.max(axis=1).tolist(),
            strict=True,
        )
        if text.strip()
    ]


def _detect(engine: Any, pixels: Pixels) -> tuple[NDArray[np.float64], list[Pixels]]:
    """Detect every line: its corners, clockwise from the top left, and its pixels."""
    cuts, detected = engine.detect_and_crop(pixels, {})
    return np.asarray(detected.boxes, dtype=np.float64), list(cuts)


def _turn(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix that sets the page straight, by the median skew of its longer lines."""
    sides = boxes[:, 1] - boxes[:, 0]
    lengths = np.linalg.norm(sides, axis=1)
    long = sides[lengths > 0.4 * lengths.max()]
    angle = np.median(np.arctan2(long[:, 1], long[:, 0]))
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _sort_lines(lines: Sequence[Line], points: float) -> list[Line]:
    """Sort lines (in pixels) as they are read, and join those side by side; results in points.

    The height of a box depends on the letters in its line, so lines of about the usual height get
    that height: paragraphs and headings are found by it.
    """
    usual = median(line.size for line in lines) if lines else 0.0
    result = []
    for row in _rows_in_order(lines, usual):
        size = median(line.size for line in row)
        size = usual if abs(size - usual) <= 0.25 * usual else size
        middle = (min(line.bottom for line in row) + max(line.top for line in row)) / 2
        text = " ".join(line.text for line in row)
        left, right, bottom, top = (
            place * points
            for place in (row[0].left, row[-1].right, middle - size / 2, middle + size / 2)
        )
        result.append(Line(text, left, right, bottom, top))
    return result


def _rows_in_order(lines: Sequence[Line], usual: float) -> list[list[Line]]:
    """Sort a part of the page: split into columns, else at its widest gap, else by row.

    A column has at least three lines, half of them of at least 20 characters: less is a column of a
    table. A box may be wider than its text, by 0.4 heights of a line at either end.
    """
    rows = [
        sorted(row, key=lambda line: line.left)
        for row in group_runs(sorted(lines, key=lambda s: (-s.middle, s.left)), _is_beside)
    ]
    edge = 0.4 * usual
    parts = next(
        (
            parts
            for parts in _gaps(lines, lambda s: (s.left + edge, s.right - edge), 0.3 * usual)
            if all(len(p) >= 3 and median(len(x.text) for x in p) >= 20 for p in parts)
        ),
        [],
    )
    if not parts and len(rows) < len(lines):  # some lines stand beside each other
        parts = max(
            _gaps(lines, lambda s: (-s.top, -s.bottom), 0.2 * usual),
            key=lambda parts: min(s.bottom for s in parts[0]) - max(s.top for s in parts[1]),
            default=[],
        )
    return [row for part in parts for row in _rows_in_order(part, usual)] or rows


def _gaps(
    lines: Sequence[Line], side: Callable[[Line], tuple[float, float]], least: float
) -> list[list[list[Line]]]:
    """Return every split at a gap of at least ``least`` pixels along one axis."""
    groups = groups_apart(lines, side, least)
    return [[[*chain(*groups[:at])], [*chain(*groups[at:])]] for at in range(1, len(groups))]


def _is_beside(row: Sequence[Line], line: Line) -> bool:
    top, bottom = median(s.top for s in row), median(s.bottom for s in row)
    return (min(top, line.top) - max(bottom, line.bottom)) > 0.5 * min(top - bottom, line.size)


def _picture(
    data: bytes, kind: str, page: int, options: SourceOptions, where: str
) -> tuple[Pixels, float, int]:
    """Render a page, reduced to about `ocr_pixels`; with points per pixel, and the page count."""
    if kind != "pdf":
        return _decode_image(data, page, options, where)
    pdfium = require("pypdfium2", "ocr", "reading scans")
    with closing(pdfium.PdfDocument(data)) as document, closing(document[page - 1]) as sheet:
        width, height = sheet.get_size()
        scale = min(math.sqrt(options.ocr_pixels / max(width * height, 1.0)), 300 / 72)
        pixels = np.array(sheet.render(scale=scale, rev_byteorder=False).to_numpy()[:, :, :3])
        return pixels, 1 / scale, len(document)


def _decode_image(
    data: bytes, page: int, options: SourceOptions, where: str
) -> tuple[Pixels, float, int]:
    images = require("PIL.Image", "ocr", "reading images")
    images.MAX_IMAGE_PIXELS = None  # bounded below, with a message of our own
    try:
        with images.open(io.BytesIO(data)) as image:
            pages = int(getattr(image, "n_frames", 1))
            image.seek(page - 1)
            scale = min(1.0, math.sqrt(options.ocr_pixels / (image.width * image.height)))
            # JPEG files are decoded at a smaller size at once
            smaller = max(1, int(image.width * scale)), max(1, int(image.height * scale))
            image.draft("RGB", smaller)
            simple = image.mode in _SIMPLE and "transparency" not in image.info
            taken = image.width * image.height * (4 if simple else 13)
            if taken > options.max_memory:
                raise UnsupportedSourceError(
                    f"decoding the image ({image.width:,} x {image.height:,} pixels) takes about "
                    f"{taken:,} bytes, more than `max_memory` ({options.max_memory:,} bytes)",
                    where=where,
                    hint="save it smaller, or raise `max_memory` of the source",
                )
            pixels = _reduce_image(image, smaller)
    except (OSError, ValueError, SyntaxError, EOFError, KeyError) as error:
        unknown = isinstance(error, images.UnidentifiedImageError)  # it names an object in memory
        raise MalformedSourceError(
            "the image is truncated or damaged"
            + (", or of another kind than its name says" if unknown else f": {error}"),
            where=where,
            hint="copy or download it again, or save it again in an image program",
        ) from error
    return pixels, 842.0 / max(pixels.shape[:2]), pages  # the longer side is that of an A4 page


def _reduce_image(image: Any, size: tuple[int, int]) -> Pixels:
    """Return an image upright and on white, that fits into a size."""
    images = require("PIL.Image", "ocr", "reading images")
    operations = require("PIL.ImageOps", "ocr", "reading images")
    if image.mode.startswith(("I", "F")):  # 16 bits and more
        wide = np.asarray(image, dtype=np.float32)
        grey = (wide - wide.min()) * (255.0 / max(float(np.ptp(wide)), 1e-9))
        image = images.fromarray(grey.astype(np.uint8))
    elif image.mode == "1":
        image = image.convert("L")
    elif image.mode not in _SIMPLE or "transparency" in image.info:
        image = image.convert("RGBA")
    image.thumbnail(size)
    image = operations.exif_transpose(image)
    if image.mode == "RGBA":
        white = images.new("RGBA", image.size, "white")
        white.alpha_composite(image)
        image = white
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
