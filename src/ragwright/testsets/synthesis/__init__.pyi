from ._candidates import (
    Candidate as Candidate,
    context_fault as context_fault,
    held_share as held_share,
    language_fault as language_fault,
    located as located,
    supported as supported,
    without_near_duplicates as without_near_duplicates,
)
from ._imported import imported_rows as imported_rows
from ._model_questions import (
    Passage as Passage,
    Writing as Writing,
    candidate_body as candidate_body,
    candidates_of as candidates_of,
    level_lines as level_lines,
    write_questions as write_questions,
)
from ._offline_questions import (
    cloze_questions as cloze_questions,
    heading_questions as heading_questions,
    plain_text as plain_text,
    spread as spread,
)
from ._survey import Survey as Survey, Vocabulary as Vocabulary
from ._synthesis import (
    Synthesis as Synthesis,
    planned_splits as planned_splits,
    synthesis_of as synthesis_of,
)
from ._synthesizing import (
    Synthesizing as Synthesizing,
    forecast_synthesis as forecast_synthesis,
    import_testset as import_testset,
    synthesize as synthesize,
)
