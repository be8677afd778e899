"""The corpus doctor: faults of documents that no setting repairs, the most severe first."""

from ._auditing import (
    AuditGate,
    AuditPlan,
    Scan,
    check_audit,
    dismiss,
    forecast_audit,
    read_rules,
    run_audit,
    scan_documents,
)
from ._records import (
    KINDS,
    Audit,
    Finding,
    Place,
    check_kinds,
)

__all__ = [
    "KINDS",
    "Audit",
    "AuditGate",
    "AuditPlan",
    "Finding",
    "Place",
    "Scan",
    "check_audit",
    "check_kinds",
    "dismiss",
    "forecast_audit",
    "read_rules",
    "run_audit",
    "scan_documents",
]
