from ._files import lines_of as lines_of, objects_of as objects_of, opened as opened
from ._halves import half_note as half_note, holds_half as holds_half
from ._records import records_of as records_of
from ._rows import iter_rows as iter_rows, read_rows as read_rows, rows_of as rows_of
from ._unread import unread_columns as unread_columns, unread_note as unread_note
from ._write import (
    plain_row as plain_row,
    row_record as row_record,
    write_rows as write_rows,
)
