from ._figures import Figure as Figure, FigureImage as FigureImage, Figures as Figures
from ._handlers import LookupHandler as LookupHandler, SearchHandler as SearchHandler
from ._history import KeptRows as KeptRows
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
from ._sqlite import SqliteStore as SqliteStore, open_store as open_store
from ._store import (
    IndexedDocument as IndexedDocument,
    IndexSpec as IndexSpec,
    KeptState as KeptState,
    Store as Store,
    StoredChunk as StoredChunk,
    StoredDocument as StoredDocument,
    StoredState as StoredState,
    View as View,
    ViewStatistics as ViewStatistics,
    WriteCounts as WriteCounts,
    chunk_key as chunk_key,
    embedded_text as embedded_text,
)
from ._view import SegmentView as SegmentView, ViewState as ViewState
from ._views import (
    Channel as Channel,
    ChannelIndex as ChannelIndex,
    Channels as Channels,
    Views as Views,
)
from .sheets import (
    SheetColumn as SheetColumn,
    folded as folded,
    keep_sheets as keep_sheets,
    month_number as month_number,
    named_unit as named_unit,
    read_date as read_date,
    singular as singular,
)
