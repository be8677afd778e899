"""A figure that was found in a file, and which of them are worth keeping."""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|abb(?:ildung|\.)?|bild|image|photo|plate|diagram|chart|exhibit|illustration"
    r"|schéma|figura|ilustración)\s*[\w.]*\d",
    re.IGNORECASE,
)
"""How captions begin, in English, German, French and Spanish."""

LONGEST_CAPTION = 400
_LEAST_SIDE = 64
_LEAST_AREA = 10_000
_FLATTEST = 12.0
_MOST_BYTES = 8_000_000
_MOST_FIGURES = 500
_REPEATED = 2
"""Times that a figure may be in a document; a logo is there more often."""


@dataclass(frozen=True, slots=True)
class FoundFigure:
    """An image of a file.

    Attributes:
        data: A PNG, JPEG or GIF file; empty where ``link`` must be read first.
        page: Page or slide, from 1; None in formats without.
        box: Left, top, right and bottom on the page, in points from its upper left corner.
        caption: Its caption, else its alternative text; may be empty.
        before: Text just before it, by which its place in the text is found.
        link: Path of the image beside an HTML file.
    """

    data: bytes
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    caption: str = ""
    before: str = ""
    link: str = ""


def media_type(data: bytes) -> str:
    """Return the type of an image that browsers show; empty for any other bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    return "image/gif" if data.startswith((b"GIF87a", b"GIF89a")) else ""


def image_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, JPEG or GIF file; (0, 0) where they cannot be read."""
    kind = media_type(data)
    if kind == "image/png" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if kind == "image/gif" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    frame = _jpeg_frame(data) if kind == "image/jpeg" else b""
    if len(frame) < 6:
        return 0, 0
    height, width = struct.unpack(">HH", frame[1:5])
    return width, height


def jpeg_colours(data: bytes) -> int:
    """Return the number of colour components of a JPEG file; 0 where it cannot be read."""
    frame = _jpeg_frame(data)
    return frame[5] if len(frame) > 5 else 0


def _jpeg_frame(data: bytes) -> bytes:
    """The header of the picture in a JPEG file, from its number of bits on."""
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            at += 1
            continue
        mark = data[at + 1]
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            return data[at + 4 : at + 10]
        alone = mark in (0xFF, 0xD8, 0x01) or 0xD0 <= mark <= 0xD7
        at += 2 if alone else 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return b""


def kept_figures(figures: Iterable[FoundFigure]) -> list[FoundFigure]:
    """Leave out icons, rules, repeated logos, formats that browsers do not show, and huge files."""
    shown = [figure for figure in figures if figure.data and _is_figure(figure.data)]
    times = Counter(map(_digest, shown))
    return [f for f in shown if times[_digest(f)] <= _REPEATED][:_MOST_FIGURES]


def _digest(figure: FoundFigure) -> str:
    return hashlib.sha256(figure.data).hexdigest()


def _is_figure(data: bytes) -> bool:
    width, height = image_size(data)
    if min(width, height) < _LEAST_SIDE or width * height < _LEAST_AREA or len(data) > _MOST_BYTES:
        return False
    return max(width, height) / min(width, height) <= _FLATTEST


def caption_of(lines: Sequence[str], alternative: str = "") -> str:
    """Return the first line that begins as captions do, else the alternative text."""
    for line in lines:
        text = " ".join(line.split())
        if CAPTION.match(text):
            return text[:LONGEST_CAPTION]
    return " ".join(alternative.split())[:LONGEST_CAPTION]
