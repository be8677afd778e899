from ._ahead import FetchAhead as FetchAhead
from ._glossaries import (
    forget_glossaries as forget_glossaries,
    is_mined as is_mined,
    project_glossary as project_glossary,
)
from ._index_mismatch import (
    known_embedders as known_embedders,
    nothing_indexed as nothing_indexed,
    remember_embedder as remember_embedder,
)
from ._ingest import Feed as Feed, Ingest as Ingest, reading as reading, web_pages as web_pages
from ._progress import (
    IngestForecast as IngestForecast,
    IngestProgress as IngestProgress,
    IngestReport as IngestReport,
)
from ._stamps import Stamps as Stamps
