"""The tables that the program keeps: their database, schema, writer, locks and files."""

from ._database import (
    Appended,
    Connection,
    Database,
    Done,
    Forgets,
    Place,
    SharedPlace,
    Tables,
    Work,
    one_to_forget,
)
from ._forgetting import forget, kept_of_person
from ._kept_files import Erasures, copy_database, discard, file_error, reading_connection, writable
from ._locks import FileLock, LockHolder, WorkLock, folder_locked
from ._opening import Ledger, copy_rows, ledger_tables, open_cache, open_database
from ._output_tables import EARLIER
from ._postgres import PostgresDatabase
from ._sqlite import SqliteDatabase, sqlite_version
from ._tables import REPLY_TABLES, STAMP_TABLES
from ._writer import Writer, committed, unheard

__all__ = [
    "EARLIER",
    "REPLY_TABLES",
    "STAMP_TABLES",
    "Appended",
    "Connection",
    "Database",
    "Done",
    "Erasures",
    "FileLock",
    "Forgets",
    "Ledger",
    "LockHolder",
    "Place",
    "PostgresDatabase",
    "SharedPlace",
    "SqliteDatabase",
    "Tables",
    "Work",
    "WorkLock",
    "Writer",
    "committed",
    "copy_database",
    "copy_rows",
    "discard",
    "file_error",
    "folder_locked",
    "forget",
    "kept_of_person",
    "ledger_tables",
    "one_to_forget",
    "open_cache",
    "open_database",
    "reading_connection",
    "sqlite_version",
    "unheard",
    "writable",
]
