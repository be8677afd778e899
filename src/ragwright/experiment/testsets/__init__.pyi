from ._openings import Opening, Openings
from ._questions import questions_of
from ._review import (
    ReviewStatus,
    SheetOutcome,
    TestsetReview,
    read_review_sheet,
    review_status,
    reviewed,
    write_review_sheet,
)
from ._splits import (
    CONFIRM_SHARE,
    Split,
    assign_splits,
    gold_documents,
    joined,
    names_splits,
    split_clusters,
    split_of,
)
from ._stale import StaleSpan, current_gold, moved_row, stale_rows
from ._testsets import Testset, declared_splits, load_testset, rows_fingerprint
from ._trec import Qrels, Run, read_qrels, read_run

__all__ = [
    "CONFIRM_SHARE",
    "Opening",
    "Openings",
    "Qrels",
    "ReviewStatus",
    "Run",
    "SheetOutcome",
    "Split",
    "StaleSpan",
    "Testset",
    "TestsetReview",
    "assign_splits",
    "current_gold",
    "declared_splits",
    "gold_documents",
    "joined",
    "load_testset",
    "moved_row",
    "names_splits",
    "questions_of",
    "read_qrels",
    "read_review_sheet",
    "read_run",
    "review_status",
    "reviewed",
    "rows_fingerprint",
    "split_clusters",
    "split_of",
    "stale_rows",
    "write_review_sheet",
]
