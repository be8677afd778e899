"""Answers with a stated risk: a threshold that is chosen, certified and stored."""

from ._certificate import Certificate, certificate_in_force, certificates, withdraw_promise
from ._certify import (
    Plan,
    ScoreCandidate,
    ThresholdStep,
    auc,
    certify_steps,
    choose_plan,
    passing_chance,
    plan_of,
    risk_bound,
    risk_p,
    rows_needed,
)
from ._guard import changes_since, guard_of, hash_promised_parts, suspending_changes
from ._making import Promised, Promising, forecast_promise, make_promise, repeat_request
from ._scores import SCORES, GradedRows, RightRule, grade_rows, parse_right_rule

__all__ = [
    "SCORES",
    "Certificate",
    "GradedRows",
    "Plan",
    "Promised",
    "Promising",
    "RightRule",
    "ScoreCandidate",
    "ThresholdStep",
    "auc",
    "certificate_in_force",
    "certificates",
    "certify_steps",
    "changes_since",
    "choose_plan",
    "forecast_promise",
    "grade_rows",
    "guard_of",
    "hash_promised_parts",
    "make_promise",
    "parse_right_rule",
    "passing_chance",
    "plan_of",
    "repeat_request",
    "risk_bound",
    "risk_p",
    "rows_needed",
    "suspending_changes",
    "withdraw_promise",
]
