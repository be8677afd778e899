from ._export import export_outputs as export_outputs
from ._records import (
    Feedback as Feedback,
    FeedbackVerdict as FeedbackVerdict,
    NewBatch as NewBatch,
    NewOutput as NewOutput,
    Origin as Origin,
    Output as Output,
    OutputBatch as OutputBatch,
    OutputHit as OutputHit,
    OutputKind as OutputKind,
    OutputQuery as OutputQuery,
    ScoreOrder as ScoreOrder,
    turns_of as turns_of,
)
from ._sampling import (
    SampledOutputs as SampledOutputs,
    Sampling as Sampling,
    output_row as output_row,
    sample_outputs as sample_outputs,
)
from ._scores import (
    JudgedBy as JudgedBy,
    MeasuringDay as MeasuringDay,
    OpenDrift as OpenDrift,
    ServedCounts as ServedCounts,
    ServedScore as ServedScore,
    ServedScores as ServedScores,
    WaitingAnswer as WaitingAnswer,
)
from ._store import Outputs as Outputs
from ._times import moment as moment
