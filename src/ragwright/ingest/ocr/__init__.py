"""Text recognition (OCR): images and scanned pages become lines with their place."""

from ._engine import Sight, in_reading_order
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
    with_text,
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
    "in_reading_order",
    "may_recognise",
    "nothing_recognised",
    "recognise",
    "with_text",
]
