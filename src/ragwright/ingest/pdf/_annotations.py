"""What people put into a PDF page: values of its form, and notes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from .._normalise import iso_date

_TICKS = {2: "☐☒", 3: "○●"}
"""Kind of a field that is on or off -> how it is written."""
_VALUES = frozenset({4, 5, 6})  # lists and text
_LEFT = 300.0
"""Points to the left of a field in which its label may stand."""


def read_annotations(pdfium: Any, document: Any, page: Any, text_page: Any) -> Iterator[str]:
    """Yield a line for each field of a form that has a value, and for each note.

    Args:
        pdfium: The library.
        document: Its form was set up before its pages were opened.
        page: A page of it.
        text_page: The page's text, in which the labels of fields are looked for.
    """
    raw, form = pdfium.raw, document.formenv
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        item = raw.FPDFPage_GetAnnot(page, at)
        try:
            kind = raw.FPDFAnnot_GetSubtype(item)
            if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
                yield from _field(raw, form, item, text_page)
            elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET):
                keys = (b"Contents", b"T", b"M")
                said, author, date = (_text(raw.FPDFAnnot_GetStringValue, item, k) for k in keys)
                by = ", ".join(filter(None, (author, iso_date(date))))
                if said:
                    yield f"Comment ({by}): {said}" if by else f"Comment: {said}"
        finally:
            raw.FPDFPage_CloseAnnot(item)


def _field(raw: Any, form: Any, item: Any, text_page: Any) -> Iterator[str]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, item)
    value = _text(raw.FPDFAnnot_GetFormFieldValue, form, item) if kind in _VALUES else ""
    if kind in _TICKS:
        value = _TICKS[kind][raw.FPDFAnnot_IsChecked(form, item)]
    box = raw.FS_RECTF()
    if not value or not raw.FPDFAnnot_GetRect(item, box):
        return
    low, high = min(box.top, box.bottom), max(box.top, box.bottom)
    before = text_page.get_text_bounded(max(0.0, box.left - _LEFT), low, box.left, high)
    after = text_page.get_text_bounded(box.right, low, box.right + _LEFT, high)
    sides = (after, before) if kind in _TICKS else (before,)
    labels = (" ".join(side.split()).rstrip(":") for side in sides)
    name = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, item)
    label = next(filter(None, labels), "") or name
    yield f"{label or _text(raw.FPDFAnnot_GetFormFieldName, form, item)}: {value}"


def _text(call: Callable[..., int], *arguments: Any) -> str:
    """Return a text that PDFium writes into a buffer, of the size that it states first."""
    size = call(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return " ".join(buffer.raw[: size - 2].decode("utf-16-le", "replace").split())
