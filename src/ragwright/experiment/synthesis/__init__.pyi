from ._candidates import Candidate, context_fault, language_fault, located, without_near_duplicates
from ._imported import imported_rows
from ._model_questions import (
    Passage,
    Writing,
    candidate_body,
    candidates_of,
    level_lines,
    write_questions,
)
from ._offline_questions import cloze_questions, heading_questions, plain_text, spread
from ._survey import Survey, Vocabulary
from ._synthesis import Synthesis, planned_splits, synthesis_of

__all__ = [
    "Candidate",
    "Passage",
    "Survey",
    "Synthesis",
    "Vocabulary",
    "Writing",
    "candidate_body",
    "candidates_of",
    "cloze_questions",
    "context_fault",
    "heading_questions",
    "imported_rows",
    "language_fault",
    "level_lines",
    "located",
    "plain_text",
    "planned_splits",
    "spread",
    "synthesis_of",
    "without_near_duplicates",
    "write_questions",
]
