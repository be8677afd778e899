"""Confirmation: the winner of a sweep on held-out questions."""

from ._confirming import (
    Confirmed,
    Confirming,
    confirm,
    forecast_confirm,
    load_verdict,
    run_trials,
)
from ._verdict import (
    Confirmation,
    StudyVerdict,
    compare_with_incumbent,
    confirmation_body,
    confirmation_of,
    correct_confirmations,
)

__all__ = [
    "Confirmation",
    "Confirmed",
    "Confirming",
    "StudyVerdict",
    "compare_with_incumbent",
    "confirm",
    "confirmation_body",
    "confirmation_of",
    "correct_confirmations",
    "forecast_confirm",
    "load_verdict",
    "run_trials",
]
