"""Reads each declared file: a record for each, and the first fault with its file and line."""

from ._cleaning import (
    NAMED_STEPS,
    SINGLE_QUOTES,
    Cleaning,
    CleaningStep,
    Tag,
    Tags,
    read_cleaning,
    read_tags,
)
from ._rules import (
    Condition,
    LengthGroup,
    Refinement,
    Rules,
    SourceSpec,
    read_rules,
    read_source_spec,
)
from ._text_format import (
    FormatPiece,
    Rollups,
    TextFormat,
    read_biographies,
    read_rollups,
    read_text_format,
    spelling_key,
)

__all__ = [
    "NAMED_STEPS",
    "SINGLE_QUOTES",
    "Cleaning",
    "CleaningStep",
    "Condition",
    "FormatPiece",
    "LengthGroup",
    "Refinement",
    "Rollups",
    "Rules",
    "SourceSpec",
    "Tag",
    "Tags",
    "TextFormat",
    "read_biographies",
    "read_cleaning",
    "read_rollups",
    "read_rules",
    "read_source_spec",
    "read_tags",
    "read_text_format",
    "spelling_key",
]
