"""Readers that turn sources into documents, and chunkers that cut them."""

from __future__ import annotations

from ._seams import Chunker, Failure, FetchBytes, Fetched, Reader

__all__ = ["Chunker", "Failure", "FetchBytes", "Fetched", "Reader"]
