"""Sources of rows: files and databases, in batches with the place of each row."""

from ._alchemy import AlchemyServer, Server, SqlSource
from ._batches import Runs, cut_batches, key_texts, piece, place, place_in, runs_of, text_of
from ._csv import well_quoted
from ._files import FileSource

__all__ = [
    "AlchemyServer",
    "FileSource",
    "Runs",
    "Server",
    "SqlSource",
    "cut_batches",
    "key_texts",
    "piece",
    "place",
    "place_in",
    "runs_of",
    "text_of",
    "well_quoted",
]
