"""Sources of rows: files and databases, in batches with the place of each row."""

from ._alchemy import SqlSource
from ._batches import RowBatch, RowSource, common_type, key_texts, text_of
from ._files import FileSource

__all__ = [
    "FileSource",
    "RowBatch",
    "RowSource",
    "SqlSource",
    "common_type",
    "key_texts",
    "text_of",
]
