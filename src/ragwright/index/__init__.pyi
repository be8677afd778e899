from ._handlers import LookupHandler, SearchHandler
from ._ladder import RungRate, rung_rates, rungs_of
from ._lance import LanceStore
from ._naive import naive_relaxed
from ._open import open_store
from ._options import StoreOptions
from ._scan_view import ScanView
from ._sqlite import SqliteStore
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
from ._stored import Reading, StoredChunk, StoredDocument
from ._tokens import AnalyzerFactory, default_analyzer
from ._views import Views

__all__ = [
    "AnalyzerFactory",
    "IndexedDocument",
    "LanceStore",
    "LookupHandler",
    "Pair",
    "Reading",
    "RungRate",
    "ScanView",
    "SearchHandler",
    "SqliteStore",
    "Store",
    "StoreOptions",
    "StoredChunk",
    "StoredDocument",
    "View",
    "ViewStatistics",
    "Views",
    "WriteCounts",
    "chunk_key",
    "default_analyzer",
    "embedded_text",
    "naive_relaxed",
    "open_store",
    "rung_rates",
    "rungs_of",
]
