"""Training parts of the search, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "training",
    commands={
        "tune": "ragwright.app.tuning._tune:group",
    },
    sentences={
        "tune": "Train parts of the search on a testset; kept only where they win on held-out "
        "questions.",
    },
)
