"""PDF files: text in reading order, tables, headings, notes."""

from ._reading import read_pdf

__all__ = [
    "read_pdf",
]
