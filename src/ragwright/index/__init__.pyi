from ._handlers import LookupHandler as LookupHandler, SearchHandler as SearchHandler
from ._heads import (
    chunk_key as chunk_key,
    embedded_text as embedded_text,
    headed_text as headed_text,
)
from ._lance import LanceStore as LanceStore
from ._options import LanceSizes as LanceSizes, StoreOptions as StoreOptions
from ._postings import AnalyzerFactory as AnalyzerFactory, default_analyzer as default_analyzer
from ._prepare import packed_terms as packed_terms
from ._rank import (
    Ladder as Ladder,
    RungRate as RungRate,
    rung_rates as rung_rates,
    rungs_of as rungs_of,
)
from ._sheets import (
    forget_sheets as forget_sheets,
    keep_sheets as keep_sheets,
    unique as unique,
)
from ._sqlite import SqliteStore as SqliteStore, open_store as open_store
from ._store import (
    IndexedDocument as IndexedDocument,
    IndexSpec as IndexSpec,
    Store as Store,
    StoredChunk as StoredChunk,
    StoredDocument as StoredDocument,
    StoredState as StoredState,
    View as View,
    ViewStatistics as ViewStatistics,
    WriteCounts as WriteCounts,
)
from ._view import SegmentView as SegmentView, ViewState as ViewState
from ._views import Views as Views
