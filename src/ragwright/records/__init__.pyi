from ._check import Checking as Checking, check_records as check_records
from ._documents import (
    RecordsReader as RecordsReader,
    WholeChunker as WholeChunker,
    record_document_id as record_document_id,
    record_key as record_key,
)
from ._engine import StepWork as StepWork
from ._options import RecordsOptions as RecordsOptions
from ._plan import (
    RefreshPlan as RefreshPlan,
    RefreshProgress as RefreshProgress,
    RefreshReport as RefreshReport,
)
from ._refresh import refresh as refresh
from ._seams import (
    HASH as HASH,
    KEY as KEY,
    REASON as REASON,
    TABLES as TABLES,
    ArrowTable as ArrowTable,
    RowSource as RowSource,
    Step as Step,
    TableName as TableName,
    Task as Task,
    UpsertCounts as UpsertCounts,
)
from ._source import open_source as open_source
from ._spec import (
    RecordsSpec as RecordsSpec,
    load_draft_spec as load_draft_spec,
    load_spec as load_spec,
    shipped_format as shipped_format,
    spec_faults as spec_faults,
    unread_files as unread_files,
    unused_format_faults as unused_format_faults,
)
from .checking import CheckReport as CheckReport, PatternFacts as PatternFacts
from .declared import (
    LengthGroup as LengthGroup,
    Rollups as Rollups,
    Rules as Rules,
    SourceSpec as SourceSpec,
    TextFormat as TextFormat,
    parse_text_format as parse_text_format,
)
from .tables import (
    Changes as Changes,
    Manifest as Manifest,
    Tables as Tables,
    export_chats as export_chats,
    export_table as export_table,
    held_note as held_note,
    hold as hold,
    release as release,
)
