from ._again import doubtful_documents, vectors_again
from ._ahead import FetchAhead
from ._glossaries import forget_glossaries, is_mined, project_glossary
from ._ingest import Feed, Ingest, reading, web_pages
from ._like import StoredDocuments, build_like, unfetched
from ._progress import IngestForecast, IngestProgress, IngestReport
from ._stamps import Stamps
from ._swapped import known_embedders, nothing_indexed, remember_embedder

__all__ = [
    "Feed",
    "FetchAhead",
    "Ingest",
    "IngestForecast",
    "IngestProgress",
    "IngestReport",
    "Stamps",
    "StoredDocuments",
    "build_like",
    "doubtful_documents",
    "forget_glossaries",
    "is_mined",
    "known_embedders",
    "nothing_indexed",
    "project_glossary",
    "reading",
    "remember_embedder",
    "unfetched",
    "vectors_again",
    "web_pages",
]
