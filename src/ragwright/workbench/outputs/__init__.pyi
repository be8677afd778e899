from ._export import export_outputs
from ._records import (
    Feedback,
    NewBatch,
    NewOutput,
    Origin,
    Output,
    OutputBatch,
    OutputHit,
    OutputKind,
    OutputQuery,
    Verdict,
    turns_of,
)
from ._sampling import SampledOutputs, Sampling, output_row, sample_outputs
from ._store import Outputs
from ._times import moment

__all__ = [
    "Feedback",
    "NewBatch",
    "NewOutput",
    "Origin",
    "Output",
    "OutputBatch",
    "OutputHit",
    "OutputKind",
    "OutputQuery",
    "Outputs",
    "SampledOutputs",
    "Sampling",
    "Verdict",
    "export_outputs",
    "moment",
    "output_row",
    "sample_outputs",
    "turns_of",
]
