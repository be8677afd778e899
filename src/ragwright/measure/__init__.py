"""Measures as values, and the statistics beside them."""

from __future__ import annotations

from ._catalogue import Definition, definitions
from ._measure import Measure, parse_measure, parse_measures
from ._retrieval import retrieval_scores
from ._statistics import Summary, aggregate

__all__ = [
    "Definition",
    "Measure",
    "Summary",
    "aggregate",
    "definitions",
    "parse_measure",
    "parse_measures",
    "retrieval_scores",
]
