"""Records as documents: refresh of the tables, and their sync with the index."""

from ._findings import record_findings
from ._index import index_is_behind
from ._records import ProjectRecords
from ._refreshing import RecordsReport, RefreshOptions

__all__ = [
    "ProjectRecords",
    "RecordsReport",
    "RefreshOptions",
    "index_is_behind",
    "record_findings",
]
