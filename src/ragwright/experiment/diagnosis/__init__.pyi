from ._capabilities import Curve, CurvePoint, capability_curves
from ._diagnosis import (
    Diagnosis,
    StagePoints,
    diagnosed_body,
    diagnosed_of,
    diagnosis_by,
    diagnosis_of,
)
from ._facts import facts_kept, is_right
from ._generators import (
    PairOf,
    Readers,
    Reading,
    ReadRow,
    read_body,
    read_of,
    read_row,
    readers_of,
    readings_of,
)
from ._gold_places import GoldPlace, has_gold
from ._oracles import DiagnosedRow, DiagnosisCase, Stage, diagnosed_row, pool_depth, stage_names

__all__ = [
    "Curve",
    "CurvePoint",
    "DiagnosedRow",
    "Diagnosis",
    "DiagnosisCase",
    "GoldPlace",
    "PairOf",
    "ReadRow",
    "Readers",
    "Reading",
    "Stage",
    "StagePoints",
    "capability_curves",
    "diagnosed_body",
    "diagnosed_of",
    "diagnosed_row",
    "diagnosis_by",
    "diagnosis_of",
    "facts_kept",
    "has_gold",
    "is_right",
    "pool_depth",
    "read_body",
    "read_of",
    "read_row",
    "readers_of",
    "readings_of",
    "stage_names",
]
