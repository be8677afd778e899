"""Questions with gold, written by a model, offline, or from given rows."""

from ._candidates import (
    Candidate,
    Survey,
    Synthesis,
    Vocabulary,
    context_fault,
    is_supported,
    language_fault,
    locate_quote,
    measure_held_share,
    plan_splits,
    reject_near_duplicates,
    synthesis_of,
)
from ._model_questions import (
    Passage,
    QuestionWriter,
    candidate_body,
    candidates_of,
    level_lines,
    write_questions,
)
from ._offline_questions import cloze_questions, heading_questions, spread, strip_marks
from ._synthesizing import (
    SynthesisOptions,
    forecast_synthesis,
    import_rows,
    import_testset,
    synthesize,
)

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
    "import_rows",
    "import_testset",
    "is_supported",
    "language_fault",
    "level_lines",
    "locate_quote",
    "measure_held_share",
    "plan_splits",
    "reject_near_duplicates",
    "spread",
    "strip_marks",
    "synthesis_of",
    "synthesize",
    "write_questions",
]
