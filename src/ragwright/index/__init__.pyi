from ._channel import Channel as Channel, ChannelIndex as ChannelIndex, Channels as Channels
from ._handlers import LookupHandler as LookupHandler, SearchHandler as SearchHandler
from ._history import KeptRows as KeptRows
from ._ladder import (
    Ladder as Ladder,
    RungRate as RungRate,
    rung_rates as rung_rates,
    rungs_of as rungs_of,
)
from ._lance import LanceStore as LanceStore
from ._open import open_store as open_store
from ._options import LanceSizes as LanceSizes, StoreOptions as StoreOptions
from ._prepare import packed_terms as packed_terms
from ._sqlite import SqliteStore as SqliteStore
from ._store import (
    IndexedDocument as IndexedDocument,
    IndexSpec as IndexSpec,
    KeptState as KeptState,
    Store as Store,
    View as View,
    ViewStatistics as ViewStatistics,
    WriteCounts as WriteCounts,
    chunk_key as chunk_key,
    embedded_text as embedded_text,
)
from ._stored import (
    StoredChunk as StoredChunk,
    StoredDocument as StoredDocument,
    StoredState as StoredState,
)
from ._tokens import AnalyzerFactory as AnalyzerFactory, default_analyzer as default_analyzer
from ._view import SegmentView as SegmentView, ViewState as ViewState
from ._views import Views as Views
