"""Which measures are taken where none are named: those that followed people best."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import Row
from ._measure import Measure, parse_measure
from ._score import missing_fields

DEFAULTS = ("nDCG@10", "Recall@5", "KPrecision", "Contains", "TokenF1")
"""For ranking, grounding and answers; chosen from docs/measures.md."""


def default_measures(rows: Iterable[Row]) -> tuple[Measure, ...]:
    """The default measures that at least one of the rows has all fields for, none asking a model.

    Grounding and answers were chosen from docs/measures.md, which holds every measure that
    needs no judge against people.
    """
    known = tuple(rows)
    chosen = [parse_measure(text) for text in DEFAULTS]
    return tuple(
        measure
        for measure in chosen
        if any(not missing_fields(row, measure.definition) for row in known)
    )
