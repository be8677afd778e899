from ._changes import Changes
from ._export import export_chats, export_table
from ._known import HashedKeys, KeyIndex, Words, hashed_keys, packed_hashes
from ._manifest import Manifest
from ._parts import LivePart, read_file, write_part
from ._state import SourceState, held_note, hold, release
from ._tables import Tables
from ._writing import Writing

__all__ = [
    "Changes",
    "HashedKeys",
    "KeyIndex",
    "LivePart",
    "Manifest",
    "SourceState",
    "Tables",
    "Words",
    "Writing",
    "export_chats",
    "export_table",
    "hashed_keys",
    "held_note",
    "hold",
    "packed_hashes",
    "read_file",
    "release",
    "write_part",
]
