"""Adapters of published sets of people's verdicts, and files of rows by a map of their columns."""

from ._answers import climate_fever, evouna, mtrag, q2, qags, trulens
from ._column_map import MappedColumn, read_column_map
from ._columns import read_mapped_rows
from ._files import SetFiles
from ._open import list_sets, open_people
from ._preferences import ragchecker
from ._qrels import qrels, read_graded_rows

__all__ = [
    "MappedColumn",
    "SetFiles",
    "climate_fever",
    "evouna",
    "list_sets",
    "mtrag",
    "open_people",
    "q2",
    "qags",
    "qrels",
    "ragchecker",
    "read_column_map",
    "read_graded_rows",
    "read_mapped_rows",
    "trulens",
]
