from ._chat_export import chat_lines as chat_lines, write_chat as write_chat
from ._feedback import (
    FEEDBACK as FEEDBACK,
    feedback_note as feedback_note,
    files_naming as files_naming,
    forget_feedback as forget_feedback,
    is_candidate as is_candidate,
    is_feedback as is_feedback,
    store_candidates as store_candidates,
)
from ._gold_chunks import (
    best_chunk as best_chunk,
    chunks_of as chunks_of,
    covers as covers,
    gold_chunks as gold_chunks,
    graded_documents as graded_documents,
)
from ._labels import (
    Decision as Decision,
    ReviewAgreement as ReviewAgreement,
    ReviewLabels as ReviewLabels,
    answer_in_evidence as answer_in_evidence,
    holds_reviews as holds_reviews,
)
from ._openings import Opening as Opening, Openings as Openings
from ._project_testsets import (
    open_review as open_review,
    project_testset as project_testset,
    with_current_gold as with_current_gold,
)
from ._questions import questions_of as questions_of
from ._review import (
    ReviewStatus as ReviewStatus,
    SheetOutcome as SheetOutcome,
    TestsetReview as TestsetReview,
    read_review_sheet as read_review_sheet,
    review_status as review_status,
    write_review_sheet as write_review_sheet,
)
from ._splits import (
    Split as Split,
    assign_splits as assign_splits,
    fold_clusters as fold_clusters,
    gold_documents as gold_documents,
    joined as joined,
    split_clusters as split_clusters,
)
from ._stale import current_gold as current_gold, moved_row as moved_row, stale_rows as stale_rows
from ._suite_making import make_suite as make_suite
from ._testsets import (
    Testset as Testset,
    declared_splits as declared_splits,
    load_testset as load_testset,
    rows_fingerprint as rows_fingerprint,
)
from ._trec import Qrels as Qrels, Run as Run, read_qrels as read_qrels, read_run as read_run
from .rows import (
    half_note as half_note,
    holds_half as holds_half,
    iter_rows as iter_rows,
    objects_of as objects_of,
    opened as opened,
    plain_row as plain_row,
    read_rows as read_rows,
    records_of as records_of,
    row_record as row_record,
    rows_of as rows_of,
    unread_columns as unread_columns,
    unread_note as unread_note,
    write_rows as write_rows,
)
from .suites import (
    CLOSED_BOOK as CLOSED_BOOK,
    Evidence as Evidence,
    GoldAnswer as GoldAnswer,
    LeakCheck as LeakCheck,
    SuiteOptions as SuiteOptions,
    all_given as all_given,
    entities as entities,
    falsify as falsify,
    given_answer as given_answer,
    gold_answer as gold_answer,
    read_rgb as read_rgb,
    rgb_rows as rgb_rows,
    suite_rows as suite_rows,
)
from .synthesis import (
    Candidate as Candidate,
    Passage as Passage,
    Survey as Survey,
    Synthesis as Synthesis,
    Synthesizing as Synthesizing,
    Vocabulary as Vocabulary,
    Writing as Writing,
    cloze_questions as cloze_questions,
    context_fault as context_fault,
    forecast_synthesis as forecast_synthesis,
    heading_questions as heading_questions,
    import_testset as import_testset,
    language_fault as language_fault,
    located as located,
    plain_text as plain_text,
    planned_splits as planned_splits,
    spread as spread,
    synthesis_of as synthesis_of,
    synthesize as synthesize,
    without_near_duplicates as without_near_duplicates,
)
