"""Answers with a stated risk, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "promise",
    commands={"promise": "ragwright.app.checking._promise:command"},
    sentences={
        "promise": "Certify on held-out questions that at most so many answers are wrong, and "
        "withhold the others.",
    },
    guards={"promise": "ragwright.promise:guard_of"},
)
