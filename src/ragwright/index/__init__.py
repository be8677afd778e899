"""The store (truth on disk) and the read view that answers."""

from __future__ import annotations

from ._store import (
    IndexedDocument,
    Pair,
    Store,
    View,
    ViewStatistics,
    WriteCounts,
    chunk_key,
    embedded_text,
)

__all__ = [
    "IndexedDocument",
    "Pair",
    "Store",
    "View",
    "ViewStatistics",
    "WriteCounts",
    "chunk_key",
    "embedded_text",
]
