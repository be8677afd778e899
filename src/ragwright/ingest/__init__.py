"""Readers that turn sources into documents, and chunkers that cut them."""

from __future__ import annotations

from ._chunkers import ChunkOptions, make_chunker
from ._chunks import check_spans
from ._extract import Attachment, Extract, SourceOptions
from ._fetch import FetchHandler, FetchOptions
from ._files import FileReader, extract_bytes
from ._html import html_to_text, parse_html
from ._language import guess_language
from ._normalise import clean_metadata, iso_date, normalise
from ._seams import Chunker, Failure, FetchBytes, Fetched, Reader

__all__ = [
    "Attachment",
    "ChunkOptions",
    "Chunker",
    "Extract",
    "Failure",
    "FetchBytes",
    "FetchHandler",
    "FetchOptions",
    "Fetched",
    "FileReader",
    "Reader",
    "SourceOptions",
    "check_spans",
    "clean_metadata",
    "extract_bytes",
    "guess_language",
    "html_to_text",
    "iso_date",
    "make_chunker",
    "normalise",
    "parse_html",
]
