"""The tables that the program keeps: their database, schema, writer, locks and files."""

from ._database import (
    Connection,
    Database,
    Place,
    SharedPlace,
    count_kept_of_person,
    forget,
    one_to_forget,
)
from ._ledger import Ledger, Writer, open_cache, open_database
from ._locks import FileLock, LockHolder, WorkLock, folder_locked, process_runs, read_process
from ._sqlite import (
    Erasures,
    SqliteDatabase,
    copy_database,
    discard,
    file_error,
    keep_log,
    reading_connection,
    sqlite_version,
    writable,
)
from ._tables import (
    EARLIER,
    REPLY_TABLES,
    STAMP_TABLES,
    AppendOnlyTable,
    ErasureRule,
    Tables,
    ledger_tables,
)

__all__ = [
    "EARLIER",
    "REPLY_TABLES",
    "STAMP_TABLES",
    "AppendOnlyTable",
    "Connection",
    "Database",
    "ErasureRule",
    "Erasures",
    "FileLock",
    "Ledger",
    "LockHolder",
    "Place",
    "SharedPlace",
    "SqliteDatabase",
    "Tables",
    "WorkLock",
    "Writer",
    "copy_database",
    "count_kept_of_person",
    "discard",
    "file_error",
    "folder_locked",
    "forget",
    "keep_log",
    "ledger_tables",
    "one_to_forget",
    "open_cache",
    "open_database",
    "process_runs",
    "read_process",
    "reading_connection",
    "sqlite_version",
    "writable",
]
