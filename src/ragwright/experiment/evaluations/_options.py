"""How an evaluation is run, beyond what is configured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evaluating:
    """How to run an evaluation.

    Attributes:
        resume: Continue the newest unfinished run of the same testset, settings and snapshot.
        retry_errors: Also run its rows again that failed or have an errored score; stored replies
            are reused, so that only what is missing is asked.
        seed: Seed of the intervals.
        answers: Write answers and score them; else rankings alone are scored.
        name: What to call the run, empty for its id alone.
        vectors_vary: The index may have no vectors where that of another trial has: `ChunkScore` is
            then not applicable instead of refused.
    """

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0
    answers: bool = False
    name: str = ""
    vectors_vary: bool = False
