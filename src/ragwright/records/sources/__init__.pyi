from ._adbc import AdbcServer
from ._alchemy import AlchemyServer
from ._batches import Runs, place, place_in, runs_of
from ._files import FileSource
from ._sql import Server, SqlSource
from ._values import key_texts

__all__ = [
    "AdbcServer",
    "AlchemyServer",
    "FileSource",
    "Runs",
    "Server",
    "SqlSource",
    "key_texts",
    "place",
    "place_in",
    "runs_of",
]
