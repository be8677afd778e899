"""Which measures are taken where none are named: those that followed people best."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import Row
from ._measure import Measure, parse_measure
from ._score import missing_fields
from ._setup import MeasureSetup

DEFAULTS = ("nDCG@10", "Recall@5", "KPrecision(content)", "Contains", "TokenF1")
"""For ranking, grounding and answers; the last three chosen from docs/measures.md.

`Contains` suits short references and `TokenF1` long ones, where the other says nothing.
"""

WITH_TOKENS = "BERTScore(recall)"
"""Taken too where a token model is set: nothing followed people's verdicts on answers closer."""


def default_measures(rows: Iterable[Row], setup: MeasureSetup | None = None) -> tuple[Measure, ...]:
    """The default measures that at least one of the rows has all fields for.

    None of them asks a model, unless ``setup`` names a local one for tokens.

    Grounding and answers were chosen from docs/measures.md, which holds every measure that
    needs no judge against people.
    """
    known = tuple(rows)
    texts = DEFAULTS if setup is None or not setup.token_model else (*DEFAULTS, WITH_TOKENS)
    chosen = [parse_measure(text) for text in texts]
    return tuple(
        measure
        for measure in chosen
        if any(not missing_fields(row, measure.definition) for row in known)
    )
