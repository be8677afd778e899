"""How an evaluation, or another stored run, is run beyond what is configured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to make a run of rows.

    Attributes:
        resume: Continue the newest unfinished run of the same rows, settings and snapshot.
        retry_errors: Also run failed rows and rows with an errored score again; stored replies are
            reused, so only missing ones are requested.
        seed: Seed of flips and intervals.
        name: What to call the run, empty for its id alone.
    """

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating(RunOptions):
    """How to run an evaluation.

    Attributes:
        answers: Write answers and score them; else only rankings are scored.
        vectors_vary: The index may have no vectors where that of another trial has: `ChunkScore` is
            then not applicable instead of refused.
    """

    answers: bool = False
    vectors_vary: bool = False
