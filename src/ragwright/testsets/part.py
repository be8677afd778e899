"""Testsets: making them and reviewing them, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "testsets",
    commands={
        "synth": "ragwright.app._synth:command",
        "review": "ragwright.app._review:command",
        "suite": "ragwright.app._suite:group",
    },
    sentences={
        "synth": "Make a testset from the indexed documents: with a model, offline, or from given "
        "rows.",
        "review": "Review a testset row by row, or write a sheet for people to score answers "
        "blind.",
        "suite": "Test how answers cope with irrelevant, missing or false passages.",
    },
)
