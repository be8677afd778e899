from ._book import forget_sheets as forget_sheets, keep_sheets as keep_sheets, quoted as quoted
from ._columns import (
    SheetColumn as SheetColumn,
    folded as folded,
    month_number as month_number,
    read_date as read_date,
    singular as singular,
)
from ._grid import SheetTable as SheetTable, tables_of as tables_of
from ._units import named_unit as named_unit
