"""The stages of a refresh: bronze, silver and gold rows, and rows that are left out."""

from ._bronze import BronzeRows, check_text, renamed
from ._duplicates import duplicates, kind_of_reason, left_out_keys
from ._gold import GoldStep
from ._hashes import row_hashes
from ._silver import RetagStep, SilverStep, clean_texts, repeated_at_most, tag_lists, tagged

__all__ = [
    "BronzeRows",
    "GoldStep",
    "RetagStep",
    "SilverStep",
    "check_text",
    "clean_texts",
    "duplicates",
    "kind_of_reason",
    "left_out_keys",
    "renamed",
    "repeated_at_most",
    "row_hashes",
    "tag_lists",
    "tagged",
]
