"""Reads Office files: DOCX, PPTX and spreadsheets."""

from ._docx import read_docx, read_pptx
from ._workbook import read_sheet

__all__ = ["read_docx", "read_pptx", "read_sheet"]
