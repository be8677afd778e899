from ._auditing import (
    Auditing as Auditing,
    dismiss as dismiss,
    forecast_audit as forecast_audit,
    known_audits as known_audits,
    run_audit as run_audit,
    stored_audit as stored_audit,
)
from ._gate import (
    AuditGate as AuditGate,
    check_audit as check_audit,
    read_rules as read_rules,
    require_kinds as require_kinds,
)
from ._options import AuditOptions as AuditOptions, check_kinds as check_kinds
from ._records import (
    KINDS as KINDS,
    Audit as Audit,
    Finding as Finding,
    Place as Place,
    cut_place as cut_place,
    finding_body as finding_body,
    finding_of as finding_of,
    ranked_findings as ranked_findings,
)
from ._scan import Scan as Scan, scan_documents as scan_documents
