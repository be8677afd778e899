from ._corpus import (
    Corpus as Corpus,
    corpus_evidence as corpus_evidence,
    open_corpus as open_corpus,
)
from ._falsify import Kind as Kind, entities as entities, falsify as falsify, kind_of as kind_of
from ._given import all_given as all_given, given_answer as given_answer
from ._gold_answers import (
    GoldAnswer as GoldAnswer,
    LeakCheck as LeakCheck,
    gold_answer as gold_answer,
)
from ._rgb import read_rgb as read_rgb, rgb_rows as rgb_rows
from ._suites import (
    CLOSED_BOOK as CLOSED_BOOK,
    Evidence as Evidence,
    SuiteOptions as SuiteOptions,
    SuiteRows as SuiteRows,
    checked_distractors as checked_distractors,
    suite_rows as suite_rows,
)
