"""Scores and comparisons turned so that higher is better."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

from ...core import Score
from ...measure import Comparison, Measure, MeasureScale


def grown(measure: Measure) -> MeasureScale | None:
    """Return the scale with higher values better: inverted if lower is better."""
    scale = measure.known_scale
    if scale is None or scale.higher_is_better:
        return scale
    return MeasureScale(-math.inf if scale.high is None else -scale.high, -scale.low)


def named(comparison: Comparison, measure: str) -> Comparison:
    """Rename a comparison to a measure; infinite bounds become None."""
    endless: dict[str, Any] = {
        field.name: None
        for field in fields(comparison)
        if isinstance(value := getattr(comparison, field.name), float) and math.isinf(value)
    }
    return replace(comparison, measure=measure, scale=None, **endless)


def upward_score(score: Score, measure: Measure, name: str) -> Score:
    """Turn a score so that higher is better; an abstention is the worst value."""
    definition = measure.definition
    upward = definition.higher_is_better
    worst = definition.low if upward else definition.high
    value = score.value
    if score.state == "abstained" and not score.unanswerable:
        value = worst
    if value is None:
        return replace(score, measure=name) if score.value is None else score
    return Score(name, "scored", value if upward else -value)
