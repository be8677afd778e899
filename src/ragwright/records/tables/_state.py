"""State of the last reading of the source, which only saves reading it again."""

from __future__ import annotations

import json
from pathlib import Path

from ...core import replace_text
from ._tables import RecordTables

_FILE = "source.json"


class SourceState:
    """Stamp and watermark of the last reading, valid for one version of the tables.

    Lost or old, it costs a reading of the whole source and nothing else.
    """

    def __init__(self, version: int = 0, stamp: str = "", watermark: str = "") -> None:
        self._version = version
        self._stamp = stamp
        self.watermark = watermark

    @classmethod
    def load(cls, tables: RecordTables) -> SourceState:
        """The stored state of the source; empty if the tables changed since."""
        try:
            stored = json.loads(_path(tables).read_text("utf-8"))
            state = cls(int(stored["version"]), str(stored["stamp"]), str(stored["watermark"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        return state if state._version == tables.version else cls()

    def seen(self, stamp: str) -> bool:
        """True if the source is unchanged since it was last read."""
        return bool(stamp) and stamp == self._stamp

    def read(self, stamp: str, watermark: str) -> None:
        """The source was read up to here."""
        self._stamp, self.watermark = stamp, watermark

    def save(self, tables: RecordTables) -> None:
        """Keep it for the version that the tables have now."""
        path = _path(tables)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"version": tables.version, "stamp": self._stamp, "watermark": self.watermark}
        replace_text(path, json.dumps(kept), private=True)


def _path(tables: RecordTables) -> Path:
    return tables.folder / _FILE
