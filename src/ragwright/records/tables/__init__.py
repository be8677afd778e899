"""Versioned tables of rows: read, written, compared, exported; what is known of their source."""

from ._changes import Changes
from ._export import export_chats, export_table
from ._files import LivePart, read_file, write_part
from ._known import (
    HashedKeys,
    KeyIndex,
    KnownRows,
    Words,
    hash_keys,
    pack_hashes,
    write_hashes,
)
from ._manifest import Manifest
from ._state import SourceState
from ._tables import RecordTables
from ._writing import TableWriter

__all__ = [
    "Changes",
    "HashedKeys",
    "KeyIndex",
    "KnownRows",
    "LivePart",
    "Manifest",
    "RecordTables",
    "SourceState",
    "TableWriter",
    "Words",
    "export_chats",
    "export_table",
    "hash_keys",
    "pack_hashes",
    "read_file",
    "write_hashes",
    "write_part",
]
