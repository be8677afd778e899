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
        "eval": "Run a testset through the project, or any other system, and score the answers.",
        "score": "Score given rows, or a run's stored answers again, without generating anything.",
        "compare": "Compare two runs row by row: difference, interval, test, and rows needed to "
        "be sure.",
        "gate": "Check a run against rules: exit code 0 passed, 100 failed, 101 not trustworthy.",
        "diagnose": "Find the stage that loses points: each one is replaced by a perfect one in "
        "turn.",
        "sweep": "Run a study: every combination of settings on the tune split, ranked with "
        "intervals.",
        "confirm": "Compare a sweep's winner with the current settings on held-out questions.",
        "ablate": "Measure what each part of the prompt does and costs, and which can be deleted.",
        "baseline": "Compare distances of questions and answers with those of given pairs: "
        "smaller, equal or larger.",
    },
)
