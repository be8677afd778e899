"""The structured door: rows become bronze, silver and gold tables, then documents."""

from __future__ import annotations

from ._options import EngineName, RecordsOptions

__all__ = [
    "EngineName",
    "RecordsOptions",
]
