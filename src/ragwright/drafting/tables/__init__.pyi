from ._findings import record_findings as record_findings
from ._index import index_is_behind as index_is_behind
from ._records import ProjectRecords as ProjectRecords
from ._refreshing import RecordsReport as RecordsReport, Refreshing as Refreshing
