"""The unit that a run of rankings counted: gold spans or gold documents."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import Row

COUNTED = "counted"
"""Manifest key of the unit that a run counted."""


def counted_in_rows(rows: Iterable[Row]) -> str:
    """Return what measures count in rows: ``spans``, ``documents`` or ``spans and documents``."""
    kinds = {
        "spans" if row.reference_spans else "documents"
        for row in rows
        if row.reference_spans or row.reference_ids
    }
    return " and ".join(sorted(kinds, reverse=True))
