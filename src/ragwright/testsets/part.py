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
        "synth": "Make a test set from the indexed documents.",
        "review": "Review test rows, or score answers by hand.",
        "suite": "Test answers on bad or missing passages.",
    },
)
