"""Diagnosis: the stage, persona or capability where a run loses points."""

from ._capabilities import Curve, CurvePoint, capability_curves
from ._comparing_generators import GridOptions, compare_generators, forecast_generators
from ._diagnosing import Diagnosing, forecast_diagnosis, run_diagnosis
from ._diagnosis import (
    LOST_RULE,
    Diagnosis,
    StagePoints,
    diagnosis_by,
    diagnosis_of,
    read_diagnosed_row,
    write_diagnosed_row,
)
from ._facts import RIGHT_ANSWER, RIGHT_RULE, facts_kept, is_right
from ._generators import (
    GridComparison,
    GridRow,
    PersonaModelGrid,
    grid_of,
    read_body,
    read_of,
    read_row,
    readings_of,
)
from ._gold_places import GoldPlace, has_gold
from ._of_run import RunDiagnosis, RunRowLoss, diagnose_run
from ._oracles import (
    DiagnosedRow,
    DiagnosisCase,
    Lost,
    Stage,
    diagnose_row,
    pool_depth,
    stage_names,
)

__all__ = [
    "LOST_RULE",
    "RIGHT_ANSWER",
    "RIGHT_RULE",
    "Curve",
    "CurvePoint",
    "DiagnosedRow",
    "Diagnosing",
    "Diagnosis",
    "DiagnosisCase",
    "GoldPlace",
    "GridComparison",
    "GridOptions",
    "GridRow",
    "Lost",
    "PersonaModelGrid",
    "RunDiagnosis",
    "RunRowLoss",
    "Stage",
    "StagePoints",
    "capability_curves",
    "compare_generators",
    "diagnose_row",
    "diagnose_run",
    "diagnosis_by",
    "diagnosis_of",
    "facts_kept",
    "forecast_diagnosis",
    "forecast_generators",
    "grid_of",
    "has_gold",
    "is_right",
    "pool_depth",
    "read_body",
    "read_diagnosed_row",
    "read_of",
    "read_row",
    "readings_of",
    "run_diagnosis",
    "stage_names",
    "write_diagnosed_row",
]
