"""Answers with a stated risk, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "promise",
    commands={"promise": "ragwright.app.checking._promise:command"},
    sentences={
        "promise": "Certify a limit on the share of wrong answers.",
    },
    guards={"promise": "ragwright.promise:guard_of"},
)
