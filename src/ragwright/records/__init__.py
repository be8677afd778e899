"""Rows of tables and databases: bronze, silver and gold tables, then documents."""

from ._check import CheckReport, PatternFacts, check_records, open_source
from ._delta import Manifest
from ._documents import MessageChunker, RecordsReader, record_document_id, record_key
from ._refresh import RefreshPlan, RefreshProgress, RefreshReport, refresh
from ._seams import HASH, KEY, REASON, TABLES, TableName, UpsertCounts
from ._spec import RecordsOptions, RecordsSpec, load_draft_spec, load_shipped_format, load_spec
from ._tables import Changes, RecordTables, export_chats, export_table
from .declared import LengthGroup, Rollups, Rules, SourceSpec, TextFormat
from .sources import RowBatch, RowSource

__all__ = [
    "HASH",
    "KEY",
    "REASON",
    "TABLES",
    "Changes",
    "CheckReport",
    "LengthGroup",
    "Manifest",
    "MessageChunker",
    "PatternFacts",
    "RecordTables",
    "RecordsOptions",
    "RecordsReader",
    "RecordsSpec",
    "RefreshPlan",
    "RefreshProgress",
    "RefreshReport",
    "Rollups",
    "RowBatch",
    "RowSource",
    "Rules",
    "SourceSpec",
    "TableName",
    "TextFormat",
    "UpsertCounts",
    "check_records",
    "export_chats",
    "export_table",
    "load_draft_spec",
    "load_shipped_format",
    "load_spec",
    "open_source",
    "record_document_id",
    "record_key",
    "refresh",
]
