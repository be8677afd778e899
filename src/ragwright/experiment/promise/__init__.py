"""Answers with a stated risk: a threshold that is chosen, certified and stored."""

from ._certificate import (
    Certificate,
    certificate_in_force,
    certificates,
    guard_of,
    suspending_changes,
    withdraw_promise,
)
from ._certify import (
    SCORES,
    Plan,
    RightRule,
    ScoreCandidate,
    auc,
    certify_steps,
    choose_plan,
    grade_rows,
    passing_chance,
    plan_of,
    risk_bound,
    risk_p,
    rows_needed,
)
from ._promise import PromiseOptions, PromiseResult, forecast_promise, make_promise, repeat_request

__all__ = [
    "SCORES",
    "Certificate",
    "Plan",
    "PromiseOptions",
    "PromiseResult",
    "RightRule",
    "ScoreCandidate",
    "auc",
    "certificate_in_force",
    "certificates",
    "certify_steps",
    "choose_plan",
    "forecast_promise",
    "grade_rows",
    "guard_of",
    "make_promise",
    "passing_chance",
    "plan_of",
    "repeat_request",
    "risk_bound",
    "risk_p",
    "rows_needed",
    "suspending_changes",
    "withdraw_promise",
]
