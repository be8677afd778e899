from ._check import Checking as Checking, check_records as check_records
from ._documents import (
    RecordsReader as RecordsReader,
    WholeChunker as WholeChunker,
    record_document_id as record_document_id,
    record_key as record_key,
)
from ._engine import LocalEngine as LocalEngine
from ._options import EngineName as EngineName, RecordsOptions as RecordsOptions
from ._plan import (
    RefreshPlan as RefreshPlan,
    RefreshProgress as RefreshProgress,
    RefreshReport as RefreshReport,
)
from ._ray import RayEngine as RayEngine
from ._refresh import refresh as refresh
from ._seams import (
    Engine as Engine,
    RowSource as RowSource,
    TableName as TableName,
    UpsertCounts as UpsertCounts,
)
from ._source import open_source as open_source
from ._spec import (
    RecordsSpec as RecordsSpec,
    load_draft_spec as load_draft_spec,
    load_spec as load_spec,
    spec_faults as spec_faults,
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
