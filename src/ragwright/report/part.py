"""Reports, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "report",
    commands={
        "report": "ragwright.app._report:command",
    },
    sentences={
        "report": "Write an HTML report on runs or a study.",
    },
)
