"""Options of evaluations and other stored runs, besides the project's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run of rows.

    Attributes:
        resume: Continue the newest unfinished run of the same rows, settings and snapshot.
        retry_errors: Also run failed rows and rows with an errored score again; stored replies are
            reused, so only missing ones are requested.
        seed: Seed of flips and intervals.
        name: Name of the run, empty for its id alone.
    """

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating(RunOptions):
    """Options of an evaluation.

    Attributes:
        answers: Write answers and score them, as the command does; False: only rankings are scored.
        vectors_vary: The index may lack vectors that another trial's index has: `ChunkScore` is
            then not applicable instead of refused.
    """

    answers: bool = True
    vectors_vary: bool = False
