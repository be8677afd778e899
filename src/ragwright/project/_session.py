"""What one session asks of a project, beyond what its file says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """What one session asks for beyond the project file.

    Attributes:
        overrides: ``key.path=value`` texts laid over the project file.
        jobs: Most requests in flight per model.
        reuse: Answer from stored replies.
        attempt: Raised to draw new replies in place of stored ones.
        max_cost: Most money to spend; the project's own bound where None.
        seed: Seed of everything that is drawn at random.
        filters: Hard filters beside the project's own, such as ``party=D``.
        soft: Soft filters beside the project's own, such as ``topic=health^3``.
        served: Under the served configuration, in place of the project's settings as they stand.
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
