"""The corpus doctor: faults of documents that no setting repairs, the most severe first."""

from ._auditing import (
    AuditGate,
    AuditPlan,
    Scan,
    check_audit,
    dismiss,
    forecast_audit,
    list_audits,
    load_audit,
    read_rules,
    require_kinds,
    run_audit,
    scan_documents,
)
from ._options import AuditOptions, check_kinds
from ._records import (
    KINDS,
    Audit,
    Finding,
    Place,
    cut_place,
    finding_body,
    finding_of,
    rank_findings,
)

__all__ = [
    "KINDS",
    "Audit",
    "AuditGate",
    "AuditOptions",
    "AuditPlan",
    "Finding",
    "Place",
    "Scan",
    "check_audit",
    "check_kinds",
    "cut_place",
    "dismiss",
    "finding_body",
    "finding_of",
    "forecast_audit",
    "list_audits",
    "load_audit",
    "rank_findings",
    "read_rules",
    "require_kinds",
    "run_audit",
    "scan_documents",
]
