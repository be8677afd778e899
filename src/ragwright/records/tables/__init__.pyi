from ._changes import Changes as Changes
from ._export import export_chats as export_chats, export_table as export_table
from ._files import LivePart as LivePart, read_file as read_file, write_part as write_part
from ._known import (
    HashedKeys as HashedKeys,
    KeyIndex as KeyIndex,
    Known as Known,
    Words as Words,
    hashed_keys as hashed_keys,
    packed_hashes as packed_hashes,
    written_hashes as written_hashes,
)
from ._manifest import Manifest as Manifest
from ._state import (
    SourceState as SourceState,
    held_note as held_note,
    hold as hold,
    release as release,
)
from ._tables import Tables as Tables
from ._writing import Writing as Writing
