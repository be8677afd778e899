from ._ahead import FetchAhead as FetchAhead
from ._cluster import (
    Cluster as Cluster,
    ClusterIngest as ClusterIngest,
    clear_spools as clear_spools,
    spool_folder as spool_folder,
)
from ._feeds import (
    Feed as Feed,
    Recipe as Recipe,
    reading as reading,
    web_pages as web_pages,
)
from ._glossaries import (
    forget_glossaries as forget_glossaries,
    is_mined as is_mined,
    project_glossary as project_glossary,
)
from ._index_key import reading_suffix as reading_suffix
from ._index_mismatch import (
    known_embedders as known_embedders,
    nothing_indexed as nothing_indexed,
    remember_embedder as remember_embedder,
)
from ._ingest import Ingest as Ingest
from ._preparing import Preparing as Preparing, PreparingSettings as PreparingSettings
from ._progress import (
    IngestForecast as IngestForecast,
    IngestProgress as IngestProgress,
    IngestReport as IngestReport,
    Pace as Pace,
)
from ._stamps import Stamps as Stamps, forget_stamps as forget_stamps
