"""Versioned tables of rows: read, written, compared, exported; what is known of their source."""

from ._changes import Changes
from ._export import export_chats, export_table
from ._files import LivePart, read_file, write_part
from ._known import HashedKeys, KeyIndex, Known, Words, hashed_keys, packed_hashes, written_hashes
from ._manifest import Manifest
from ._state import SourceState
from ._tables import Tables
from ._writing import Writing

__all__ = [
    "Changes",
    "HashedKeys",
    "KeyIndex",
    "Known",
    "LivePart",
    "Manifest",
    "SourceState",
    "Tables",
    "Words",
    "Writing",
    "export_chats",
    "export_table",
    "hashed_keys",
    "packed_hashes",
    "read_file",
    "write_part",
    "written_hashes",
]
