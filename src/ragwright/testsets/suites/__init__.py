"""Capability suites: noise, rejection, integration, counterfactual, sources."""

from ._corpus import PassageSource, corpus_evidence, open_corpus
from ._falsify import Kind, entities, falsify, kind_of
from ._given import all_given, answer_from_given
from ._gold_answers import GoldAnswer, LeakCheck, gold_answer
from ._rgb import read_rgb, rgb_rows
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
