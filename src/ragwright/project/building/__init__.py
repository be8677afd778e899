"""Builds the index: reading, chunking, embedding, and changes."""

from ._cluster import ClusterIngest
from ._feeds import Feed, FetchAhead, Recipe, Stamps, forget_stamps, reading, web_pages
from ._glossaries import (
    forget_glossaries,
    is_mined,
    nothing_indexed,
    project_glossary,
)
from ._ingest import Ingest
from ._preparing import Preparing
from ._progress import IngestForecast, IngestProgress, IngestReport

__all__ = [
    "ClusterIngest",
    "Feed",
    "FetchAhead",
    "Ingest",
    "IngestForecast",
    "IngestProgress",
    "IngestReport",
    "Preparing",
    "Recipe",
    "Stamps",
    "forget_glossaries",
    "forget_stamps",
    "is_mined",
    "nothing_indexed",
    "project_glossary",
    "reading",
    "web_pages",
]
