"""Settings of one session, in addition to the project file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of one session in addition to the project file.

    Attributes:
        overrides: ``key.path=value`` texts that override the project file.
        jobs: Most requests in flight per model.
        reuse: Answer from stored replies.
        attempt: Raised to request new replies in place of stored ones.
        max_cost: Most money to spend; the project's own bound if None.
        seed: Seed of all random choices.
        filters: Hard filters in addition to the project's, such as ``party=D``.
        soft: Soft filters in addition to the project's, such as ``topic=health^3``.
        served: Use the served configuration instead of the project's present settings.
        background: Give way to served answers: one request in flight per model, and none sent
            while a server of the project works on an answer.
    """

    overrides: tuple[str, ...] = ()
    jobs: int | None = None
    reuse: bool = True
    attempt: int = 0
    max_cost: float | None = None
    seed: int = 0
    filters: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    served: bool = False
    background: bool = False
