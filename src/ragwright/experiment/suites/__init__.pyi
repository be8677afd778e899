from ._corpus import Corpus, Gathered, corpus_evidence, open_corpus
from ._falsify import entities, falsify
from ._given import all_given, given_answer
from ._gold_answers import GoldAnswer, LeakCheck, gold_answer
from ._rgb import RgbQuestion, read_rgb, rgb_rows
from ._suites import CLOSED_BOOK, Evidence, SuiteOptions, SuiteRows, suite_rows

__all__ = [
    "CLOSED_BOOK",
    "Corpus",
    "Evidence",
    "Gathered",
    "GoldAnswer",
    "LeakCheck",
    "RgbQuestion",
    "SuiteOptions",
    "SuiteRows",
    "all_given",
    "corpus_evidence",
    "entities",
    "falsify",
    "given_answer",
    "gold_answer",
    "open_corpus",
    "read_rgb",
    "rgb_rows",
    "suite_rows",
]
