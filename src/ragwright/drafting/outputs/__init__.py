"""The table of outputs: every draft and every prompt, with feedback and exports."""

from ._export import export_outputs
from ._records import (
    Feedback,
    FeedbackVerdict,
    NewBatch,
    NewOutput,
    Origin,
    Output,
    OutputBatch,
    OutputHit,
    OutputKind,
    OutputQuery,
    ScoreOrder,
    turns_of,
)
from ._sampling import OutputSample, SampledOutputs, output_row, sample_outputs
from ._scores import (
    JudgedBy,
    MeasuringDay,
    OpenDrift,
    ServedCounts,
    ServedScore,
    ServedScores,
    WaitingAnswer,
)
from ._store import Outputs
from ._times import moment

__all__ = [
    "Feedback",
    "FeedbackVerdict",
    "JudgedBy",
    "MeasuringDay",
    "NewBatch",
    "NewOutput",
    "OpenDrift",
    "Origin",
    "Output",
    "OutputBatch",
    "OutputHit",
    "OutputKind",
    "OutputQuery",
    "OutputSample",
    "Outputs",
    "SampledOutputs",
    "ScoreOrder",
    "ServedCounts",
    "ServedScore",
    "ServedScores",
    "WaitingAnswer",
    "export_outputs",
    "moment",
    "output_row",
    "sample_outputs",
    "turns_of",
]
