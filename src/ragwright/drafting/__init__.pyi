from ._calls import (
    ONE_CALL as ONE_CALL,
    portions as portions,
    text_tokens as text_tokens,
    texts_per_call as texts_per_call,
)
from ._copies import (
    NearCopy as NearCopy,
    containment as containment,
    copies_among as copies_among,
    same_template as same_template,
    shares_before as shares_before,
)
from ._declarations import promoted_declarations as promoted_declarations
from ._draft import Underway as Underway, draft as draft, no_model as no_model
from ._drafting import (
    draft_plan as draft_plan,
    drafts as drafts,
    forecast_drafts as forecast_drafts,
    run_drafts as run_drafts,
)
from ._feedback import collect_feedback as collect_feedback
from ._find import DraftPlan as DraftPlan, Example as Example, Pool as Pool, find_pool as find_pool
from ._forgetting import (
    forget_document as forget_document,
    forget_person as forget_person,
    forget_tenant as forget_tenant,
    kept_of as kept_of,
    scope_name as scope_name,
)
from ._options import Drafting as Drafting
from ._records import (
    DraftBatch as DraftBatch,
    DraftPrompt as DraftPrompt,
    DraftRequest as DraftRequest,
    DraftText as DraftText,
)
from ._saving import (
    origin_of as origin_of,
    project_outputs as project_outputs,
    save_drafts as save_drafts,
)
from ._split import Split as Split, split_reply as split_reply
from .outputs import (
    Feedback as Feedback,
    FeedbackVerdict as FeedbackVerdict,
    JudgedBy as JudgedBy,
    MeasuringDay as MeasuringDay,
    NewBatch as NewBatch,
    NewOutput as NewOutput,
    OpenDrift as OpenDrift,
    Origin as Origin,
    Output as Output,
    OutputBatch as OutputBatch,
    OutputKind as OutputKind,
    OutputQuery as OutputQuery,
    Outputs as Outputs,
    SampledOutputs as SampledOutputs,
    Sampling as Sampling,
    ScoreOrder as ScoreOrder,
    ServedCounts as ServedCounts,
    ServedScore as ServedScore,
    ServedScores as ServedScores,
    WaitingAnswer as WaitingAnswer,
    export_outputs as export_outputs,
    moment as moment,
    output_row as output_row,
    sample_outputs as sample_outputs,
    turns_of as turns_of,
)
from .tables import (
    ProjectRecords as ProjectRecords,
    RecordsReport as RecordsReport,
    Refreshing as Refreshing,
    index_is_behind as index_is_behind,
    record_findings as record_findings,
)
