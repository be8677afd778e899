"""Adapters of published sets of people's verdicts, and files of rows by a map of their columns."""

from ._answers import (
    SetFiles,
    climate_fever,
    evouna,
    mtrag,
    q2,
    qags,
    qrels,
    ragchecker,
    read_graded_rows,
    trulens,
)
from ._columns import MappedColumn, list_sets, open_people, read_column_map, read_mapped_rows

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
