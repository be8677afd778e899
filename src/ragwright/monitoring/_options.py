"""How served answers are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measuring:
    """How served answers are measured, beside the section ``serve.measure``.

    Attributes:
        retry_errors: Also try again what ended in an error, now.
        most: Most answers of this pass; None for all that wait.
    """

    retry_errors: bool = False
    most: int | None = None
