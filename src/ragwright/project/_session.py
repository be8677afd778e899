"""What a session asks for beyond the settings, kinds of runs, and whether others answer now."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .. import retrieve
from ._settings import Settings


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of one session in addition to the project file.

    Attributes:
        overrides: ``key.path=value`` texts that override the project file.
        jobs: Most requests in flight per model.
        reuse: Answer from stored replies.
        attempt: Raised to request new replies in place of stored ones.
        max_cost: Most money to spend; the project's own bound if None.
        seed: Seed of all random choices.
        filters: Hard filters in addition to the project's, such as ``party=D``.
        soft: Soft filters in addition to the project's, such as ``topic=health^3``.
        served: Use the served configuration instead of the project's present settings.
        background: Give way to served answers: one request in flight per model, and none sent
            while a server of the project works on an answer.
    """

    overrides: tuple[str, ...] = ()
    jobs: int | None = None
    reuse: bool = True
    attempt: int = 0
    max_cost: float | None = None
    seed: int = 0
    filters: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    served: bool = False
    background: bool = False

    def narrowed(self, settings: Settings) -> Settings:
        """Settings with the session's filters added to the project's."""
        options = settings.retrieve
        hard = tuple(map(retrieve.parse_filter, self.filters))
        soft = tuple(map(retrieve.parse_soft_filter, self.soft))
        narrowed = replace(options, filters=options.filters + hard, soft=options.soft + soft)
        return replace(settings, retrieve=narrowed)


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


ABLATE = "ablate"
CONFIRM = "confirm"
SWEEP = "sweep"
TRIAL = "trial"
