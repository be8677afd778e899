"""How a project is run for others: who did what, and backups."""

from ._audit_log import (
    AuditLog,
    EventQuery,
    audit_log,
    record,
    record_done,
    recorded,
    recorded_erasure,
)
from ._audit_tables import OPERATION_TABLES
from ._backup import back_up_project, check_backup
from ._events import EVENT_KINDS, Event, EventKind, event_json, owner_event, utc_now
from ._options import AuditOptions, audit_options

__all__ = [
    "EVENT_KINDS",
    "OPERATION_TABLES",
    "AuditLog",
    "AuditOptions",
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
    "recorded",
    "recorded_erasure",
    "utc_now",
]
