from ._cleaning import Cleaning, CleaningStep, MaxRepeat, NamedStep, read_cleaning
from ._file import Declared, declared_text, read_declared
from ._lag import Lag
from ._rollups import Rollups, read_rollups, spelling_key
from ._rules import Condition, LengthGroup, Refinement, Rules, read_rules
from ._source_spec import SourceSpec, read_source_spec
from ._tags import Tag, Tags, read_tags
from ._text_format import Piece, TextFormat, parse_text_format, read_text_format

__all__ = [
    "Cleaning",
    "CleaningStep",
    "Condition",
    "Declared",
    "Lag",
    "LengthGroup",
    "MaxRepeat",
    "NamedStep",
    "Piece",
    "Refinement",
    "Rollups",
    "Rules",
    "SourceSpec",
    "Tag",
    "Tags",
    "TextFormat",
    "declared_text",
    "parse_text_format",
    "read_cleaning",
    "read_declared",
    "read_rollups",
    "read_rules",
    "read_source_spec",
    "read_tags",
    "read_text_format",
    "spelling_key",
]
