from ._changes import Changes
from ._check import Checking, check_records
from ._check_report import CheckReport, PatternFacts
from ._documents import RecordsReader, WholeChunker, record_document_id, record_key
from ._engine import LocalEngine
from ._export import export_chats, export_table
from ._manifest import Manifest
from ._options import EngineName, RecordsOptions
from ._ray import RayEngine
from ._refresh import RefreshPlan, RefreshProgress, RefreshReport, refresh
from ._rollups import Rollups
from ._rules import LengthGroup, Rules
from ._seams import Engine, RowSource, TableName, UpsertCounts
from ._source import open_source
from ._source_spec import SourceSpec
from ._spec import RecordsSpec, load_draft_spec, load_spec, spec_faults
from ._state import held_note, hold, release
from ._tables import Tables
from ._text_format import TextFormat, parse_text_format

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
