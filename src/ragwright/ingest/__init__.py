"""Readers that turn sources into documents, and chunkers that cut them."""

from __future__ import annotations

from ._chunkers import ChunkOptions, make_chunker
from ._chunks import check_spans
from ._fetch import FetchHandler, FetchOptions
from ._seams import Chunker, Failure, FetchBytes, Fetched, Reader

__all__ = [
    "ChunkOptions",
    "Chunker",
    "Failure",
    "FetchBytes",
    "FetchHandler",
    "FetchOptions",
    "Fetched",
    "Reader",
    "check_spans",
    "make_chunker",
]
