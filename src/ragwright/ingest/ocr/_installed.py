"""Whether text recognition may be used, and by which engine."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ...core import require
from .._options import SourceOptions


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
