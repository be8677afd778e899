"""Questions with gold, written by a model, offline, or from given rows."""

from ._candidates import (
    Candidate,
    context_fault,
    held_share,
    language_fault,
    located,
    supported,
    without_near_duplicates,
)
from ._imported import imported_rows
from ._model_questions import (
    Passage,
    QuestionWriter,
    candidate_body,
    candidates_of,
    level_lines,
    write_questions,
)
from ._offline_questions import cloze_questions, heading_questions, plain_text, spread
from ._survey import Survey, Vocabulary
from ._synthesis import Synthesis, planned_splits, synthesis_of
from ._synthesizing import SynthesisOptions, forecast_synthesis, import_testset, synthesize

__all__ = [
    "Candidate",
    "Passage",
    "QuestionWriter",
    "Survey",
    "Synthesis",
    "SynthesisOptions",
    "Vocabulary",
    "candidate_body",
    "candidates_of",
    "cloze_questions",
    "context_fault",
    "forecast_synthesis",
    "heading_questions",
    "held_share",
    "import_testset",
    "imported_rows",
    "language_fault",
    "level_lines",
    "located",
    "plain_text",
    "planned_splits",
    "spread",
    "supported",
    "synthesis_of",
    "synthesize",
    "without_near_duplicates",
    "write_questions",
]
