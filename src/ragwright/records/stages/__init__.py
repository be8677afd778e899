"""The stages of a refresh: bronze, silver and gold rows, and rows that are left out."""

from ._bronze import BronzeRows, check_text, rename_columns
from ._duplicates import duplicates, kind_of_reason, read_left_out_keys
from ._gold import GoldStep
from ._hashes import row_hashes
from ._silver import RetagStep, SilverStep, clean_texts, find_tags, limit_repeats, tag_lists

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
    "read_left_out_keys",
    "rename_columns",
    "row_hashes",
    "tag_lists",
]
