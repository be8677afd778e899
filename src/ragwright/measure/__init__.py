"""Measures as values, and the statistics beside them."""

from __future__ import annotations

from ._alignment import BertScorer, MoverScorer
from ._catalogue import definitions
from ._defaults import default_measures
from ._definition import Definition
from ._embedded import QADistances, qa_distances
from ._measure import Measure, parse_measure, parse_measures
from ._retrieval import retrieval_scores
from ._score import check_setup, score_row, score_rows
from ._setup import MeasureSetup
from ._statistics import Summary, Tally, aggregate

__all__ = [
    "BertScorer",
    "Definition",
    "Measure",
    "MeasureSetup",
    "MoverScorer",
    "QADistances",
    "Summary",
    "Tally",
    "aggregate",
    "check_setup",
    "default_measures",
    "definitions",
    "parse_measure",
    "parse_measures",
    "qa_distances",
    "retrieval_scores",
    "score_row",
    "score_rows",
]
