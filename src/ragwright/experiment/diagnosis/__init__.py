"""Diagnosis: the stage, persona or capability where a run loses points."""

from ._capabilities import Curve, CurvePoint, capability_curves
from ._diagnose import (
    DiagnosisOptions,
    RunDiagnosis,
    diagnose_run,
    forecast_diagnosis,
    run_diagnosis,
)
from ._diagnosis import LOST_RULE, Diagnosis, StagePoints, diagnosis_by, diagnosis_of
from ._generators import (
    GridComparison,
    GridOptions,
    GridRow,
    PersonaModelGrid,
    compare_generators,
    forecast_generators,
    grid_of,
    readings_of,
)
from ._oracles import (
    RIGHT_ANSWER,
    RIGHT_RULE,
    STAGES,
    DiagnosedRow,
    GoldPlace,
    Lost,
    Stage,
    facts_kept,
    is_right,
)

__all__ = [
    "LOST_RULE",
    "RIGHT_ANSWER",
    "RIGHT_RULE",
    "STAGES",
    "Curve",
    "CurvePoint",
    "DiagnosedRow",
    "Diagnosis",
    "DiagnosisOptions",
    "GoldPlace",
    "GridComparison",
    "GridOptions",
    "GridRow",
    "Lost",
    "PersonaModelGrid",
    "RunDiagnosis",
    "Stage",
    "StagePoints",
    "capability_curves",
    "compare_generators",
    "diagnose_run",
    "diagnosis_by",
    "diagnosis_of",
    "facts_kept",
    "forecast_diagnosis",
    "forecast_generators",
    "grid_of",
    "is_right",
    "readings_of",
    "run_diagnosis",
]
