"""Confirmation: the winner of a sweep on held-out questions."""

from ._confirming import (
    Confirmed,
    Confirming,
    confirm,
    forecast_confirm,
    run_trials,
    stored_verdict,
)
from ._verdict import (
    Confirmation,
    StudyVerdict,
    compared,
    confirmation_body,
    confirmation_of,
    settled,
)

__all__ = [
    "Confirmation",
    "Confirmed",
    "Confirming",
    "StudyVerdict",
    "compared",
    "confirm",
    "confirmation_body",
    "confirmation_of",
    "forecast_confirm",
    "run_trials",
    "settled",
    "stored_verdict",
]
