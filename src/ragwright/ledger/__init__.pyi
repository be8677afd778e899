from ._database import (
    Appended as Appended,
    Connection as Connection,
    Database as Database,
    Done as Done,
    Forgets as Forgets,
    Place as Place,
    SharedPlace as SharedPlace,
    Tables as Tables,
    Work as Work,
    one_to_forget as one_to_forget,
)
from ._forgetting import forget as forget, kept_of_person as kept_of_person
from ._kept_files import (
    Erasures as Erasures,
    copy_database as copy_database,
    discard as discard,
    file_error as file_error,
    reading_connection as reading_connection,
    writable as writable,
)
from ._ledger_tables import ledger_tables as ledger_tables
from ._locks import (
    FileLock as FileLock,
    LockHolder as LockHolder,
    WorkLock as WorkLock,
    folder_locked as folder_locked,
)
from ._opening import (
    Ledger as Ledger,
    copy_rows as copy_rows,
    open_cache as open_cache,
    open_database as open_database,
)
from ._output_tables import EARLIER as EARLIER
from ._postgres import PostgresDatabase as PostgresDatabase
from ._sqlite import SqliteDatabase as SqliteDatabase, sqlite_version as sqlite_version
from ._tables import (
    REPLY_TABLES as REPLY_TABLES,
    STAMP_TABLES as STAMP_TABLES,
)
from ._writer import Writer as Writer, committed as committed, unheard as unheard
