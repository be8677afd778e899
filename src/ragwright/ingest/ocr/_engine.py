"""The recogniser: a picture's lines of text, each with its box and confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import SourceError, require
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


class Engine:
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
        pixels = _framed(pixels)
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


def _framed(pixels: Pixels) -> Pixels:
    edges = ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0))
    return np.pad(pixels, edges, constant_values=255)


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
