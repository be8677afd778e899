"""How a project is run for others: who did what, and backups."""

from ._audit_log import (
    EVENT_KINDS,
    OPERATION_TABLES,
    AuditLog,
    AuditLogOptions,
    Event,
    EventKind,
    EventQuery,
    audit_log,
    audit_options,
    event_json,
    owner_event,
    record,
    record_done,
    record_erasure,
    record_event,
    utc_now,
)
from ._backup import back_up_project, check_backup

__all__ = [
    "EVENT_KINDS",
    "OPERATION_TABLES",
    "AuditLog",
    "AuditLogOptions",
    "Event",
    "EventKind",
    "EventQuery",
    "audit_log",
    "audit_options",
    "back_up_project",
    "check_backup",
    "event_json",
    "owner_event",
    "record",
    "record_done",
    "record_erasure",
    "record_event",
    "utc_now",
]
