"""Versioned tables of rows: read, written, compared, exported; what is known of their source."""

from ._files import KeyIndex, LivePart, read_file, write_part
from ._tables import RecordTables, SourceState, export_chats, export_table
from ._types import Manifest
from ._writing import Changes, TableWriter

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
