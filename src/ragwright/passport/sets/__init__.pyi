from ._answers import (
    climate_fever as climate_fever,
    evouna as evouna,
    mtrag as mtrag,
    q2 as q2,
    qags as qags,
    trulens as trulens,
)
from ._column_map import MappedColumn as MappedColumn, read_column_map as read_column_map
from ._columns import mapped_rows as mapped_rows
from ._files import SetFiles as SetFiles
from ._open import known_sets as known_sets, open_people as open_people
from ._preferences import ragchecker as ragchecker
from ._qrels import graded_rows as graded_rows, qrels as qrels
