"""The recogniser: a picture's lines of text, each with its box and confidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import SourceError, require
from .._pdf_layout import Line, groups_apart
from ._pictures import Pixels

_MODELS = {
    "Det": "PP-OCRv6_det_small.onnx",
    "Cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    "Rec": "PP-OCRv6_rec_small.onnx",
}
"""Models that the package brings; their paths are given, so that it never downloads any."""

_MARGIN = 24
"""White pixels around a picture: the detector misses text that touches the border."""
_UPRIGHT = 1.5
"""Height per width from which a box holds a line that runs up or down."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A line as it was seen: text, confidence from 0 to 1, box in pixels from the top left."""

    text: str
    confidence: float
    left: float
    top: float
    right: float
    bottom: float


class OcrEngine:
    """Reads pictures with RapidOCR: PP-OCR models on onnxruntime.

    Raises:
        MissingExtraError: The extra ``[ocr]`` is not installed.
        SourceError: The installed package lacks its models.
    """

    def __init__(self) -> None:
        main = require("rapidocr.main", "ocr", "reading scans and images")
        folder = Path(str(main.__file__)).parent / "models"
        missing = [name for name in _MODELS.values() if not (folder / name).is_file()]
        if missing:
            raise SourceError(
                f"the package rapidocr lacks its model {missing[0]}",
                where=str(folder),
                hint="install it again: pip install --force-reinstall 'rapidocr>=3.10,<3.11'",
            )
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
        self._ocr = main.RapidOCR(params=parameters)
        self._nothing: type[Exception] = main.RapidOCRError

    def read(self, pixels: Pixels) -> list[Sight]:
        """Read the lines of a picture, in no order; a page on its side is turned first."""
        edges = ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0))
        pixels = np.pad(pixels, edges, constant_values=255)
        boxes, cuts = self._detect(pixels)
        if _on_its_side(boxes):
            pixels = np.ascontiguousarray(np.rot90(pixels))
            boxes, cuts = self._detect(pixels)
        if not cuts:
            return []
        if self._upside_down(cuts):
            height, width = pixels.shape[:2]
            # the corner at the bottom right becomes the one at the top left
            boxes = [np.roll(np.array([width, height]) - box, 2, axis=0) for box in boxes]
            cuts = [np.ascontiguousarray(cut[::-1, ::-1]) for cut in cuts]
        try:
            lines = self._ocr.recognize_txt(cuts)
        except self._nothing:
            return []
        angle = _angle(boxes)
        return [
            Sight(text.strip(), round(float(score), 3), *_extent(box, angle))
            for text, score, box in zip(lines.txts, lines.scores, boxes, strict=True)
            if text.strip()
        ]

    def _detect(self, pixels: Pixels) -> tuple[list[NDArray[np.float64]], list[Pixels]]:
        """Detect every line: its corners, clockwise from the top left, and its pixels."""
        try:
            cuts, detected = self._ocr.detect_and_crop(pixels, {})
        except self._nothing:
            return [], []
        return [np.asarray(box, dtype=np.float64) for box in detected.boxes], list(cuts)

    def _upside_down(self, cuts: Sequence[Pixels]) -> bool:
        """Return True if most of the text is upside down; longer lines count more."""
        labels = self._ocr.cls_and_rotate(cuts)[1].cls_res
        votes = (
            cut.shape[1] * float(score) * (1 if label == "180" else -1)
            for cut, (label, score) in zip(cuts, labels, strict=True)
        )
        return float(sum(votes)) > 0


def _on_its_side(boxes: Sequence[NDArray[np.float64]]) -> bool:
    """Return True if the lines that are clearly longer than high run up or down."""
    total = 0.0
    for box in boxes:
        width = float(np.linalg.norm(box[1] - box[0]))
        height = float(np.linalg.norm(box[3] - box[0]))
        if height > _UPRIGHT * width:
            total += height
        elif width > _UPRIGHT * height:
            total -= width
    return total > 0


def _angle(boxes: Sequence[NDArray[np.float64]]) -> float:
    """Return the page's skew in radians: the median over its longer lines."""
    sides = [box[1] - box[0] for box in boxes]
    longest = max(float(np.linalg.norm(side)) for side in sides)
    angles = [np.arctan2(s[1], s[0]) for s in sides if np.linalg.norm(s) > 0.4 * longest]
    return float(np.median(angles))


def _extent(box: NDArray[np.float64], angle: float) -> tuple[float, float, float, float]:
    """Return a box's left, top, right, bottom after the page is set straight."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = box @ turn
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


_PROSE = 20
"""Characters that half of a column's lines have at least; less is a column of a table."""
_COLUMN = 3
"""Lines of a column at least."""
_EDGE = 0.4
"""Heights of a line by which a box may be wider than its text, at either end."""
_GUTTER = 0.3
"""Least gap between columns without these edges, in heights of a line."""
_SAME = 0.5
"""Share of the lower height by which two boxes of one row overlap."""
_USUAL = 0.25
"""Difference from the usual height within which a line has that height."""


def sort_lines(sights: Sequence[Sight], height: float, points: float) -> list[Line]:
    """Sort the lines of a page as they are read, in points from the bottom left.

    The height of a box depends on the letters in its line, so lines of about the usual height get
    that height: paragraphs and headings are found by it.

    Args:
        sights: What was recognised.
        height: Height of the page in pixels.
        points: Points per pixel.
    """
    if not sights:
        return []
    usual = median(s.bottom - s.top for s in sights)
    lines = []
    for row in _rows_in_order(list(sights), usual):
        top, bottom = min(s.top for s in row), max(s.bottom for s in row)
        size = median(s.bottom - s.top for s in row)
        if abs(size - usual) <= _USUAL * usual:
            size = usual
        middle = (top + bottom) / 2
        lines.append(
            Line(
                " ".join(s.text for s in row),
                left=row[0].left * points,
                right=row[-1].right * points,
                bottom=(height - middle - size / 2) * points,
                top=(height - middle + size / 2) * points,
            )
        )
    return lines


def _rows_in_order(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Sort a part of the page: split into columns, else at its widest gap, else by row."""
    if len(sights) > 1:
        parts = _columns(sights, usual) or _bands(sights, usual)
        if parts:
            return [row for part in parts for row in _rows_in_order(part, usual)]
    return _rows(sights)


def _columns(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Split at the first vertical gap that separates columns of prose."""
    edge = _EDGE * usual
    for part in _gaps(sights, lambda s: (s.left + edge, s.right - edge), _GUTTER * usual):
        if all(len(s) >= _COLUMN and median(len(x.text) for x in s) >= _PROSE for s in part):
            return part
    return []


def _bands(sights: list[Sight], usual: float) -> list[list[Sight]]:
    """Split at the widest horizontal gap, if columns may be beside each other there."""
    if len(_rows(sights)) == len(sights):  # one line in each row: there is nothing beside another
        return []
    return max(
        _gaps(sights, lambda s: (s.top, s.bottom), 0.2 * usual),
        key=lambda part: min(s.top for s in part[1]) - max(s.bottom for s in part[0]),
        default=[],
    )


def _gaps(
    sights: list[Sight], side: Callable[[Sight], tuple[float, float]], least: float
) -> list[list[list[Sight]]]:
    """Return every split at a gap of at least ``least`` pixels along one axis."""
    groups = groups_apart(sights, side, least)
    return [[[*chain(*groups[:at])], [*chain(*groups[at:])]] for at in range(1, len(groups))]


def _rows(sights: Sequence[Sight]) -> list[list[Sight]]:
    """Join boxes side by side to rows, from top to bottom."""
    rows: list[list[Sight]] = []
    for sight in sorted(sights, key=lambda s: (s.top + s.bottom, s.left)):
        if rows and _beside(rows[-1], sight):
            rows[-1].append(sight)
        else:
            rows.append([sight])
    return [sorted(row, key=lambda s: s.left) for row in rows]


def _beside(row: Sequence[Sight], sight: Sight) -> bool:
    top, bottom = median(s.top for s in row), median(s.bottom for s in row)
    shared = min(bottom, sight.bottom) - max(top, sight.top)
    return shared > _SAME * min(bottom - top, sight.bottom - sight.top)
