"""Watching a promise: labels of served answers against the stated risk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watching:
    """Placeholder."""


def watch_promise() -> None:
    """Placeholder."""
