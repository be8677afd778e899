"""Experiments: evaluations, studies, comparisons, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "experiment",
    commands={
        "eval": "ragwright.app._eval:command",
        "score": "ragwright.app._score:command",
        "compare": "ragwright.app._compare:command",
        "gate": "ragwright.app._gate:command",
        "diagnose": "ragwright.app._diagnose:command",
        "sweep": "ragwright.app.tuning._sweep:command",
        "confirm": "ragwright.app.tuning._confirm:command",
        "ablate": "ragwright.app._ablate:command",
        "baseline": "ragwright.app._baseline:command",
    },
    handlers={
        "AskSystem": "ragwright.experiment:system_handler",
    },
    sentences={
        "eval": "Answer a test set and score the answers.",
        "score": "Score given rows or stored answers.",
        "compare": "Compare two runs row by row.",
        "gate": "Check a run against rules, for CI.",
        "diagnose": "Find the stage that loses points.",
        "sweep": "Try the settings of a study and rank them.",
        "confirm": "Test a sweep's winner on held-out questions.",
        "ablate": "Measure what each part of the prompt does.",
        "baseline": "Compare distances of answers with given pairs.",
    },
)
