"""Passports of judges: their agreement with people, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "passport",
    commands={"passport": "ragwright.app.checking._passport:command"},
    sentences={
        "passport": "Show how far a judge agrees with people.",
    },
    people={
        "climate_fever": "ragwright.passport.sets:climate_fever",
        "evouna": "ragwright.passport.sets:evouna",
        "mtrag": "ragwright.passport.sets:mtrag",
        "q2": "ragwright.passport.sets:q2",
        "qags": "ragwright.passport.sets:qags",
        "qrels": "ragwright.passport.sets:qrels",
        "ragchecker": "ragwright.passport.sets:ragchecker",
        "trulens": "ragwright.passport.sets:trulens",
    },
)
