from ._cleaning import (
    Cleaning as Cleaning,
    CleaningStep as CleaningStep,
    MaxRepeat as MaxRepeat,
    NamedStep as NamedStep,
    read_cleaning as read_cleaning,
)
from ._file import (
    Declared as Declared,
    as_records_error as as_records_error,
    declared_text as declared_text,
    read_declared as read_declared,
)
from ._rollups import (
    Rollups as Rollups,
    read_biographies as read_biographies,
    read_rollups as read_rollups,
    spelling_key as spelling_key,
)
from ._rules import (
    Condition as Condition,
    LengthGroup as LengthGroup,
    Refinement as Refinement,
    Rules as Rules,
    read_rules as read_rules,
)
from ._source_spec import SourceSpec as SourceSpec, read_source_spec as read_source_spec
from ._tags import Tag as Tag, Tags as Tags, read_tags as read_tags
from ._text_format import (
    Piece as Piece,
    TextFormat as TextFormat,
    parse_text_format as parse_text_format,
    read_text_format as read_text_format,
)
