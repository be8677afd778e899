"""Text recognition (OCR): images and scanned pages become lines with their place."""

from ._engine import Sight, sort_lines
from ._pictures import IMAGES
from ._scans import (
    ScannedPage,
    ScanProgress,
    about_scans,
    engine_name,
    faults_of,
    image_extract,
    may_recognise,
    nothing_recognised,
    recognise,
    require_text,
)

__all__ = [
    "IMAGES",
    "ScanProgress",
    "ScannedPage",
    "Sight",
    "about_scans",
    "engine_name",
    "faults_of",
    "image_extract",
    "may_recognise",
    "nothing_recognised",
    "recognise",
    "require_text",
    "sort_lines",
]
