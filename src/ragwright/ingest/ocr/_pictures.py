"""Pages as pictures: a PDF page rendered, a frame of an image file decoded."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import MalformedSourceError, UnsupportedSourceError, require
from .._options import SourceOptions

IMAGES: Mapping[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}
"""Suffix of an image file that is read -> its media type."""

_FINEST = 300
"""Dots per inch at which a small PDF page is rendered at most."""
_LARGEST = 180_000_000
"""Pixels of an image file that are decoded at most."""
_REDUCIBLE = frozenset({"L", "RGB", "CMYK"})
"""Modes that Pillow averages over squares of pixels."""
_ORIENTATION = 0x0112
"""Tag of EXIF data: how the picture is turned."""
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Its value -> Pillow's number of the turn that sets the picture upright."""
_SHEET = 842.0
"""Points of the longer side of an image: the height of an A4 page."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Picture:
    """One page as pixels (height, width, blue green red), and how many pages its file has.

    ``points`` is the size of a pixel in points, so that lines have the same units as those of a
    text layer.
    """

    pixels: Pixels
    points: float
    pages: int


def picture_of(data: bytes, kind: str, page: int, options: SourceOptions, where: str) -> Picture:
    """Render a page of a PDF or image file, reduced to about `ocr_pixels`.

    Raises:
        MalformedSourceError: Truncated or damaged.
        UnsupportedSourceError: Decoding the image takes too much memory.
    """
    if kind != "pdf":
        return _decoded(data, page, options, where)
    pdfium = require("pypdfium2", "ocr", "reading scans")
    with closing(pdfium.PdfDocument(data)) as document, closing(document[page - 1]) as sheet:
        width, height = sheet.get_size()
        scale = min(math.sqrt(options.ocr_pixels / max(width * height, 1.0)), _FINEST / 72)
        bitmap = sheet.render(scale=scale, rev_byteorder=False)
        pixels = np.array(bitmap.to_numpy()[:, :, :3])
        return Picture(pixels, 1 / scale, len(document))


def _decoded(data: bytes, page: int, options: SourceOptions, where: str) -> Picture:
    images = require("PIL.Image", "ocr", "reading images")
    images.MAX_IMAGE_PIXELS = None  # bounded below, with a message of our own
    try:
        with images.open(io.BytesIO(data)) as image:
            pages = int(getattr(image, "n_frames", 1))
            image.seek(page - 1)
            if image.width * image.height > _LARGEST:
                raise UnsupportedSourceError(
                    f"the image has {image.width:,} x {image.height:,} pixels, more than "
                    f"{_LARGEST:,} in all",
                    where=where,
                    hint="save it smaller, or cut it into pages",
                )
            scale = min(1.0, math.sqrt(options.ocr_pixels / (image.width * image.height)))
            # JPEG files are decoded at a smaller size at once
            smaller = max(1, int(image.width * scale)), max(1, int(image.height * scale))
            image.draft("RGB", smaller)
            taken = _decoding(image)
            if taken > options.max_memory:
                raise UnsupportedSourceError(
                    f"decoding the image ({image.width:,} x {image.height:,} pixels) takes about "
                    f"{taken:,} bytes, more than `max_memory` ({options.max_memory:,} bytes)",
                    where=where,
                    hint="save it smaller, or raise `max_memory` of the source",
                )
            pixels = _reduced(image, options.ocr_pixels)
    except (OSError, ValueError, SyntaxError, EOFError, KeyError) as error:
        unknown = isinstance(error, images.UnidentifiedImageError)  # it names an object in memory
        raise MalformedSourceError(
            "the image is truncated or damaged"
            + (", or of another kind than its name says" if unknown else f": {error}"),
            where=where,
            hint="copy or download it again, or save it again in an image program",
        ) from error
    return Picture(pixels, _SHEET / max(pixels.shape[:2]), pages)


def _decoding(image: Any) -> int:
    """Estimate the bytes for decoding and converting an image; Pillow uses 1 or 4 per pixel.

    Pictures in colour or grey are reduced before they are converted.
    """
    pixels = int(image.width * image.height)
    if "transparency" in image.info:
        return pixels * 13
    return pixels * {"L": 1, "1": 2, "RGB": 4, "CMYK": 4, "P": 6}.get(image.mode, 13)


def _reduced(image: Any, most: int) -> Pixels:
    """Return an image upright and on white, with at most about ``most`` pixels."""
    operations = require("PIL.ImageOps", "ocr", "reading images")
    pixels = image.width * image.height
    turn = _TURNS.get(image.getexif().get(_ORIENTATION))
    transparent = "transparency" in image.info
    if image.mode == "1":
        image = image.convert("L")
    factor = math.isqrt(max(1, pixels // max(1, most)))
    if factor > 1 and image.mode in _REDUCIBLE and not transparent:
        image = image.reduce(factor)
    upright = image if turn is None else image.transpose(turn)
    images = require("PIL.Image", "ocr", "reading images")
    if upright.mode.startswith(("I", "F")):  # 16 bits and more
        wide = np.asarray(upright, dtype=np.float32)
        low, high = float(wide.min()), float(wide.max())
        grey = (wide - low) * (255.0 / max(high - low, 1e-9))
        upright = images.fromarray(grey.astype(np.uint8))
    if upright.mode in ("RGBA", "LA", "PA") or transparent:
        white = images.new("RGBA", upright.size, (255, 255, 255, 255))
        white.alpha_composite(upright.convert("RGBA"))
        upright = white
    colours = upright.convert("RGB")
    scale = math.sqrt(most / (colours.width * colours.height))
    if scale < 1:
        longest = max(1, round(max(colours.size) * scale))
        colours = operations.contain(colours, (longest, longest))
    return np.ascontiguousarray(np.asarray(colours)[:, :, ::-1])
