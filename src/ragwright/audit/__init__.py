"""The corpus doctor: faults of documents that no setting repairs, the most severe first."""

from ._auditing import Auditing, dismiss, forecast_audit, known_audits, run_audit, stored_audit
from ._gate import AuditGate, check_audit, read_rules, require_kinds
from ._options import AuditOptions, check_kinds
from ._records import (
    KINDS,
    Audit,
    Finding,
    Place,
    cut_place,
    finding_body,
    finding_of,
    ranked_findings,
)
from ._scan import Scan, scan_documents

__all__ = [
    "KINDS",
    "Audit",
    "AuditGate",
    "AuditOptions",
    "Auditing",
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
    "known_audits",
    "ranked_findings",
    "read_rules",
    "require_kinds",
    "run_audit",
    "scan_documents",
    "stored_audit",
]
