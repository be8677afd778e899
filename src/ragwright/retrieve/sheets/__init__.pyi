from ._answer import (
    SheetAnswer as SheetAnswer,
    sheet_answer as sheet_answer,
    units_in_sheets as units_in_sheets,
)
from ._cite import sheet_hits as sheet_hits
from ._provenance import bounds_of as bounds_of, cited_rows as cited_rows
from ._sheets import SHEETS as SHEETS, SheetReader as SheetReader
