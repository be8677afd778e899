from ._check import Checking, check_records
from ._documents import RecordsReader, WholeChunker, record_document_id, record_key
from ._engine import LocalEngine
from ._options import EngineName, RecordsOptions
from ._plan import RefreshPlan, RefreshProgress, RefreshReport
from ._ray import RayEngine
from ._refresh import refresh
from ._seams import Engine, RowSource, TableName, UpsertCounts
from ._source import open_source
from ._spec import RecordsSpec, load_draft_spec, load_spec, spec_faults
from .checking import CheckReport, PatternFacts
from .declared import LengthGroup, Rollups, Rules, SourceSpec, TextFormat, parse_text_format
from .tables import Changes, Manifest, Tables, export_chats, export_table, held_note, hold, release

__all__ = [
    "Changes",
    "CheckReport",
    "Checking",
    "Engine",
    "EngineName",
    "LengthGroup",
    "LocalEngine",
    "Manifest",
    "PatternFacts",
    "RayEngine",
    "RecordsOptions",
    "RecordsReader",
    "RecordsSpec",
    "RefreshPlan",
    "RefreshProgress",
    "RefreshReport",
    "Rollups",
    "RowSource",
    "Rules",
    "SourceSpec",
    "TableName",
    "Tables",
    "TextFormat",
    "UpsertCounts",
    "WholeChunker",
    "check_records",
    "export_chats",
    "export_table",
    "held_note",
    "hold",
    "load_draft_spec",
    "load_spec",
    "open_source",
    "parse_text_format",
    "record_document_id",
    "record_key",
    "refresh",
    "release",
    "spec_faults",
]
