"""Training models of the search, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "training",
    commands={
        "tune": "ragwright.app.tuning._tune:group",
    },
    sentences={
        "tune": "Train the embedder or a reranker (needs torch).",
    },
)
