"""Options of measuring served answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measuring:
    """Options of measuring served answers, besides the section ``serve.measure``.

    Attributes:
        retry_errors: Also retry answers whose scoring ended in an error.
        most: Most answers of this pass; None for all that wait.
    """

    retry_errors: bool = False
    most: int | None = None
