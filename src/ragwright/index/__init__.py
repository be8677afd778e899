"""The store (truth on disk) and the read view that answers."""

from __future__ import annotations

from ._handlers import LookupHandler, SearchHandler, Views
from ._ladder import RungRate, rung_rates, rungs_of
from ._lance import LanceStore
from ._naive import naive_relaxed
from ._open import open_store
from ._options import StoreOptions
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
from ._tokens import AnalyzerFactory, default_analyzer

__all__ = [
    "AnalyzerFactory",
    "IndexedDocument",
    "LanceStore",
    "LookupHandler",
    "Pair",
    "RungRate",
    "SearchHandler",
    "SqliteStore",
    "Store",
    "StoreOptions",
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
