from ._index import index_is_behind
from ._records import ProjectRecords
from ._refreshing import RecordsReport, Refreshing

__all__ = [
    "ProjectRecords",
    "RecordsReport",
    "Refreshing",
    "index_is_behind",
]
