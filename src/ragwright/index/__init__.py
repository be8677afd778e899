"""The store (truth on disk) and the read view that answers."""

from ._catalog import ViewHandler, Views
from ._lance import LanceStore
from ._postings import default_analyzer
from ._prepare import chunk_key, pack_chunk_terms, write_embedded_text
from ._rank import Ladder, rungs_of
from ._sheets import forget_sheets, keep_sheets, unique
from ._sqlite import SqliteStore, open_store
from ._store import (
    IndexedDocument,
    IndexSpec,
    LanceSizes,
    Store,
    StoredChunk,
    StoredDocument,
    StoredState,
    StoreOptions,
    View,
    ViewStatistics,
    WriteCounts,
)
from ._view import SegmentView, ViewState

__all__ = [
    "IndexSpec",
    "IndexedDocument",
    "Ladder",
    "LanceSizes",
    "LanceStore",
    "SegmentView",
    "SqliteStore",
    "Store",
    "StoreOptions",
    "StoredChunk",
    "StoredDocument",
    "StoredState",
    "View",
    "ViewHandler",
    "ViewState",
    "ViewStatistics",
    "Views",
    "WriteCounts",
    "chunk_key",
    "default_analyzer",
    "forget_sheets",
    "keep_sheets",
    "open_store",
    "pack_chunk_terms",
    "rungs_of",
    "unique",
    "write_embedded_text",
]
