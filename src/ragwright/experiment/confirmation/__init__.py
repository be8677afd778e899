"""Confirmation: the winner of a sweep on held-out questions."""

from ._confirm import (
    Confirmation,
    ConfirmOptions,
    ConfirmResult,
    StudyVerdict,
    compare_with_incumbent,
    confirm,
    correct_confirmations,
    forecast_confirm,
    load_verdict,
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
]
