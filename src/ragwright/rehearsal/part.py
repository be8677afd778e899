"""Rehearsals of a change, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "rehearsal",
    commands={
        "rehearse": "ragwright.app.checking._rehearse:command",
    },
    sentences={
        "rehearse": "Show which answers a change of settings or sources would change, and why.",
    },
)
