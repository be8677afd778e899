"""Adapters of published sets of people's verdicts, and files of rows by a map of their columns."""

from ._answers import climate_fever, evouna, mtrag, q2, qags, trulens
from ._column_map import MappedColumn, read_column_map
from ._columns import mapped_rows
from ._files import SetFiles
from ._open import known_sets, open_people
from ._preferences import ragchecker
from ._qrels import graded_rows, qrels

__all__ = [
    "MappedColumn",
    "SetFiles",
    "climate_fever",
    "evouna",
    "graded_rows",
    "known_sets",
    "mapped_rows",
    "mtrag",
    "open_people",
    "q2",
    "qags",
    "qrels",
    "ragchecker",
    "read_column_map",
    "trulens",
]
