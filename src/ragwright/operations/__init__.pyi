from ._audit_log import (
    AuditLog as AuditLog,
    EventQuery as EventQuery,
    audit_log as audit_log,
    record as record,
    record_done as record_done,
    recorded as recorded,
    recorded_erasure as recorded_erasure,
)
from ._audit_tables import OPERATION_TABLES as OPERATION_TABLES
from ._backup import back_up_project as back_up_project, check_backup as check_backup
from ._events import (
    EVENT_KINDS as EVENT_KINDS,
    Event as Event,
    EventKind as EventKind,
    event_json as event_json,
    owner_event as owner_event,
    utc_now as utc_now,
)
from ._options import AuditOptions as AuditOptions, audit_options as audit_options
