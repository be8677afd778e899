"""Versioned tables of rows: read, written, compared, exported; what is known of their source."""

from ._changes import Changes
from ._export import export_chats, export_table
from ._files import LivePart, read_file, write_part
from ._known import KeyIndex
from ._manifest import Manifest
from ._state import SourceState
from ._tables import RecordTables
from ._writing import TableWriter

__all__ = [
    "Changes",
    "KeyIndex",
    "LivePart",
    "Manifest",
    "RecordTables",
    "SourceState",
    "TableWriter",
    "export_chats",
    "export_table",
    "read_file",
    "write_part",
]
