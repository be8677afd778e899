from ._alchemy import AlchemyServer as AlchemyServer
from ._batches import (
    Runs as Runs,
    batched as batched,
    piece as piece,
    place as place,
    place_in as place_in,
    runs_of as runs_of,
)
from ._csv import well_quoted as well_quoted
from ._files import FileSource as FileSource
from ._sql import Server as Server, SqlSource as SqlSource
from ._values import key_texts as key_texts
