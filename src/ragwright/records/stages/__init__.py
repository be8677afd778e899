"""The stages of a refresh: bronze, silver and gold rows, and rows that are left out."""

from ._hashes import (
    BronzeRows,
    check_text,
    duplicates,
    kind_of_reason,
    rename_columns,
    row_hashes,
)
from ._silver import (
    GoldStep,
    RetagStep,
    SilverStep,
    clean_texts,
    find_tags,
    limit_repeats,
    tag_lists,
)

__all__ = [
    "BronzeRows",
    "GoldStep",
    "RetagStep",
    "SilverStep",
    "check_text",
    "clean_texts",
    "duplicates",
    "find_tags",
    "kind_of_reason",
    "limit_repeats",
    "rename_columns",
    "row_hashes",
    "tag_lists",
]
