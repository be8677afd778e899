"""Sources of rows: files and databases, in batches with the place of each row."""

from ._alchemy import SqlSource
from ._batches import (
    Runs,
    common_type,
    cut_batches,
    key_texts,
    piece,
    place,
    place_in,
    runs_of,
    text_of,
)
from ._files import FileSource

__all__ = [
    "FileSource",
    "Runs",
    "SqlSource",
    "common_type",
    "cut_batches",
    "key_texts",
    "piece",
    "place",
    "place_in",
    "runs_of",
    "text_of",
]
