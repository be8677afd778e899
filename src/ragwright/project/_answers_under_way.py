"""Served answers under way, so that work in the background gives way to them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_FRESH = 2.0
"""Seconds after its last note in which an answer counts as under way."""

EVERY = 0.5
"""Seconds between two notes of a server that is answering."""


class AnswersUnderWay:
    """The time of a file says when a server of this project last worked on an answer.

    Nothing has to be removed after a crash: a note that is not repeated grows old.

    Args:
        data: The project's data folder.
    """

    def __init__(self, data: Path) -> None:
        self._file = data / "serve" / "answering"
        self._noted = 0.0

    def note(self) -> None:
        """Note that an answer is under way; does nothing if that was noted a moment ago."""
        now = time.monotonic()
        if now - self._noted < EVERY / 2:
            return
        self._noted = now
        with suppress(OSError):  # a full disk or a read-only folder stops no answer
            try:
                os.utime(self._file)
            except FileNotFoundError:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.touch()

    def any(self) -> bool:
        """True if a server of this project, in any process, works on an answer."""
        try:
            return time.time() - self._file.stat().st_mtime < _FRESH
        except OSError:
            return False
