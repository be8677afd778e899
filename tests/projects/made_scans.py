"""Pages as a scanner sees them, for tests of OCR."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image, ImageDraw, ImageFont

LEFT = ("The brake fluid must be", "changed every two years", "by a trained mechanic.")
RIGHT = ("The accelerator pedal has", "a sensor that may fail,", "which code APP_w304 says.")


def page(*columns: tuple[str, ...]) -> Any:
    """A page as a scanner sees it: black letters on white.

    It is about as high as a column is wide: the detector enlarges the shorter side of a picture to
    736 pixels, so that a long strip takes several times as long as a square.
    """
    image = Image.new("L", (40 + 480 * len(columns), 520), 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(28)
    for number, lines in enumerate(columns):
        for row, line in enumerate(lines):
            draw.text((40 + 480 * number, 60 + 44 * row), line, fill=0, font=font)
    return image


def saved(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
