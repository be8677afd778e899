"""Reads each declared file, with the place of every fault."""

from ._cleaning import Cleaning, CleaningStep, MaxRepeat, NamedStep, read_cleaning
from ._file import DeclaredFile, make_records_error, read_declared, read_declared_text
from ._rollups import Rollups, read_biographies, read_rollups, spelling_key
from ._rules import Condition, LengthGroup, Refinement, Rules, read_rules
from ._source_spec import SourceSpec, read_source_spec
from ._tags import Tag, Tags, read_tags
from ._text_format import FormatPiece, TextFormat, parse_text_format, read_text_format

__all__ = [
    "Cleaning",
    "CleaningStep",
    "Condition",
    "DeclaredFile",
    "FormatPiece",
    "LengthGroup",
    "MaxRepeat",
    "NamedStep",
    "Refinement",
    "Rollups",
    "Rules",
    "SourceSpec",
    "Tag",
    "Tags",
    "TextFormat",
    "make_records_error",
    "parse_text_format",
    "read_biographies",
    "read_cleaning",
    "read_declared",
    "read_declared_text",
    "read_rollups",
    "read_rules",
    "read_source_spec",
    "read_tags",
    "read_text_format",
    "spelling_key",
]
