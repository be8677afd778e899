"""Confirmation: the winner of a sweep on held-out questions."""

from ._confirming import (
    ConfirmOptions,
    ConfirmResult,
    confirm,
    forecast_confirm,
    load_verdict,
    run_trials,
)
from ._verdict import (
    Confirmation,
    StudyVerdict,
    compare_with_incumbent,
    correct_confirmations,
)

__all__ = [
    "ConfirmOptions",
    "ConfirmResult",
    "Confirmation",
    "StudyVerdict",
    "compare_with_incumbent",
    "confirm",
    "correct_confirmations",
    "forecast_confirm",
    "load_verdict",
    "run_trials",
]
