"""The stages of a refresh: bronze, silver and gold rows, and rows that are left out."""

from ._hashes import BronzeRows, duplicates, kind_of_reason, row_hashes
from ._silver import GoldStep, RetagStep, SilverStep, clean_each, find_column, text_column

__all__ = [
    "BronzeRows",
    "GoldStep",
    "RetagStep",
    "SilverStep",
    "clean_each",
    "duplicates",
    "find_column",
    "kind_of_reason",
    "row_hashes",
    "text_column",
]
