"""Images of PDF pages, with the caption below or above them."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ...core import require
from ._found import CAPTION, LONGEST_CAPTION, FoundFigure, jpeg_colours

_NEAR = 60.0
"""Points below and above an image in which its caption is looked for."""
_BESIDE = 120.0
"""Points to its left and right that a caption may be longer."""
_BEGINS = re.compile(
    rf"(?:^|(?<=[.!?] ))(?={CAPTION.pattern}(?:[.:–—-]| +[A-Z]))", re.IGNORECASE | re.MULTILINE
)
_TOUCH = 3.0
"""Points between the strips of one image at most."""
_SCALE = 2.0
_LEAST_POINTS = 36.0
Bounds: TypeAlias = tuple[float, float, float, float]
_MOST_PIXELS = 30_000_000
_WORKING_BYTES = 8
"""Bytes of memory for each pixel of an image that is rendered."""
_BLOCK = 256
"""Rows of an image that are worked on at once."""


def pdf_figures(data: bytes) -> Iterator[FoundFigure]:
    """Yield the images of a PDF file in page order; damaged ones are left out.

    Drawings made of lines are no images and are not found.
    """
    pdfium = require("pypdfium2", "docs", "reading PDF files")
    document = pdfium.PdfDocument(data)
    try:
        for index in range(len(document)):
            page = document[index]
            try:
                yield from _page_figures(pdfium, page, index + 1)
            finally:
                page.close()
    finally:
        document.close()


def _page_figures(pdfium: Any, page: Any, number: int) -> Iterator[FoundFigure]:
    height = page.get_height()
    text_page = page.get_textpage()
    try:
        images = list(page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=4))
        for strips in _joined([(image, image.get_bounds()) for image in images]):
            bounds = _union([place for _, place in strips])
            left, bottom, right, top = bounds
            if min(right - left, top - bottom) < _LEAST_POINTS:
                continue
            try:
                whole = len(strips) == 1
                data = _image_file(strips[0][0]) if whole else _rendered(page, bounds)
            except (pdfium.PdfiumError, ValueError, OSError, zlib.error):
                continue
            box = (
                round(left, 1),
                round(height - top, 1),
                round(right, 1),
                round(height - bottom, 1),
            )
            yield FoundFigure(data, number, box, _caption(text_page, bounds))
    finally:
        text_page.close()


def _joined(images: list[tuple[Any, Bounds]]) -> list[list[tuple[Any, Bounds]]]:
    """Group the strips into which programs cut one image: as wide, and one below the other."""
    groups: list[list[tuple[Any, Bounds]]] = []
    for image, bounds in images:
        for group in groups:
            left, bottom, right, top = _union([place for _, place in group])
            as_wide = abs(left - bounds[0]) < _TOUCH and abs(right - bounds[2]) < _TOUCH
            touching = min(abs(bottom - bounds[3]), abs(top - bounds[1])) < _TOUCH
            if as_wide and touching:
                group.append((image, bounds))
                break
        else:
            groups.append([(image, bounds)])
    return groups


def _union(places: list[Bounds]) -> Bounds:
    lefts, bottoms, rights, tops = zip(*places, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _rendered(page: Any, bounds: Bounds) -> bytes:
    """A part of the page as PNG."""
    left, bottom, right, top = bounds
    width, height = page.get_size()
    crop = (max(0, left), max(0, bottom), max(0, width - right), max(0, height - top))
    return _bitmap_file(page.render(scale=_SCALE, crop=crop))


def _image_file(image: Any) -> bytes:
    """A JPEG image as it is, any other as PNG."""
    if image.get_filters()[-1:] == ["DCTDecode"]:
        data = bytes(image.get_data(decode_simple=True))
        if jpeg_colours(data) in {1, 3}:  # four are for print: browsers show them wrong
            return data
    width, height = image.get_px_size()
    if width * height > _MOST_PIXELS:
        return b""
    # where the memory is lacking, pdfium calls the image damaged
    np.empty(_WORKING_BYTES * width * height, dtype=np.uint8)
    # rendered, so that masks apply
    return _bitmap_file(image.get_bitmap(render=True))


def _bitmap_file(bitmap: Any) -> bytes:
    """A bitmap as PNG; transparent parts become white, and one colour alone is no figure."""
    pixels = np.asarray(bitmap.to_numpy())
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return png_file(pixels.reshape(pixels.shape[:2]))
    colours = pixels[:, :, 2::-1]
    if pixels.shape[2] == 4 and int(pixels[:, :, 3].min()) < 255:
        colours = np.concatenate([_on_white(rows) for rows in _blocks(pixels)])
    return png_file(colours) if int(colours.min()) != int(colours.max()) else b""


def _on_white(pixels: Any) -> Any:
    """Blue, green, red and opacity as colours on white."""
    opaque = pixels[:, :, 3:].astype(np.uint16)
    mixed = (pixels[:, :, 2::-1] * opaque + 255 * (255 - opaque)) // 255
    return mixed.astype(np.uint8)


def _blocks(pixels: Any) -> Iterator[Any]:
    """The rows of an image, a few at a time, so that work on them takes little memory."""
    return (pixels[at : at + _BLOCK] for at in range(0, len(pixels), _BLOCK))


def png_file(pixels: Any) -> bytes:
    """Return a PNG file of 8-bit pixels: (height, width) grey, or (height, width, 3) colours."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    packer = zlib.compressobj(6)
    body = bytearray()
    for block in _blocks(pixels):
        rows = block.reshape(len(block), -1)
        body += packer.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes())  # 0: no filter
    body += packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    out = bytearray(b"\x89PNG\r\n\x1a\n")
    for name, part in ((b"IHDR", header), (b"IDAT", bytes(body)), (b"IEND", b"")):
        out += struct.pack(">I", len(part)) + name + part
        out += struct.pack(">I", zlib.crc32(name + part))
    return bytes(out)


def _caption(text_page: Any, bounds: Bounds) -> str:
    """The caption that begins in the lines below an image, else above it."""
    left, bottom, right, top = bounds
    areas = ((bottom - _NEAR, bottom + 2), (top - 2, top + _NEAR))
    for low, high in areas:
        text = text_page.get_text_bounded(left - _BESIDE, low, right + _BESIDE, high)
        flat = "\n".join(" ".join(line.split()) for line in text.splitlines())
        begins = [match.start() for match in _BEGINS.finditer(flat)]
        if begins:
            end = begins[1] if len(begins) > 1 else len(flat)
            return " ".join(flat[begins[0] : end].split())[:LONGEST_CAPTION]
    return ""
