"""Answers with a stated risk: a threshold that is chosen, certified and stored."""

from ._certificate import Certificate, certificate_in_force, certificates, withdraw_promise
from ._certify import (
    Candidate,
    Plan,
    Step,
    auc,
    best_plan,
    certified_steps,
    passing_chance,
    plan_of,
    risk_bound,
    risk_p,
    rows_needed,
)
from ._guard import changes_since, guard_of, promised_parts, suspending_changes
from ._making import Promised, Promising, again, forecast_promise, make_promise
from ._scores import SCORES, GradedRows, RightRule, graded, parse_right_rule

__all__ = [
    "SCORES",
    "Candidate",
    "Certificate",
    "GradedRows",
    "Plan",
    "Promised",
    "Promising",
    "RightRule",
    "Step",
    "again",
    "auc",
    "best_plan",
    "certificate_in_force",
    "certificates",
    "certified_steps",
    "changes_since",
    "forecast_promise",
    "graded",
    "guard_of",
    "make_promise",
    "parse_right_rule",
    "passing_chance",
    "plan_of",
    "promised_parts",
    "risk_bound",
    "risk_p",
    "rows_needed",
    "suspending_changes",
    "withdraw_promise",
]
