"""Capability suites: noise, rejection, integration, counterfactual, sources."""

from ._corpus import (
    PassageSource,
    all_given,
    answer_from_given,
    corpus_evidence,
    open_corpus,
    read_rgb,
    rgb_rows,
)
from ._falsify import GoldAnswer, Kind, LeakCheck, entities, falsify, gold_answer, kind_of
from ._suites import CLOSED_BOOK, Evidence, SuiteOptions, SuiteRows, check_distractors, suite_rows

__all__ = [
    "CLOSED_BOOK",
    "Evidence",
    "GoldAnswer",
    "Kind",
    "LeakCheck",
    "PassageSource",
    "SuiteOptions",
    "SuiteRows",
    "all_given",
    "answer_from_given",
    "check_distractors",
    "corpus_evidence",
    "entities",
    "falsify",
    "gold_answer",
    "kind_of",
    "open_corpus",
    "read_rgb",
    "rgb_rows",
    "suite_rows",
]
