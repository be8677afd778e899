from ._capabilities import (
    Curve as Curve,
    CurvePoint as CurvePoint,
    capability_curves as capability_curves,
)
from ._comparing_generators import (
    GridOptions as GridOptions,
    compare_generators as compare_generators,
    forecast_generators as forecast_generators,
)
from ._diagnosing import (
    Diagnosing as Diagnosing,
    forecast_diagnosis as forecast_diagnosis,
    run_diagnosis as run_diagnosis,
)
from ._diagnosis import (
    LOST_RULE as LOST_RULE,
    Diagnosis as Diagnosis,
    StagePoints as StagePoints,
    diagnosed_body as diagnosed_body,
    diagnosed_of as diagnosed_of,
    diagnosis_by as diagnosis_by,
    diagnosis_of as diagnosis_of,
)
from ._facts import (
    RIGHT_ANSWER as RIGHT_ANSWER,
    RIGHT_RULE as RIGHT_RULE,
    facts_kept as facts_kept,
    is_right as is_right,
)
from ._generators import (
    GridComparison as GridComparison,
    GridRow as GridRow,
    PersonaModelGrid as PersonaModelGrid,
    grid_of as grid_of,
    read_body as read_body,
    read_of as read_of,
    read_row as read_row,
    readings_of as readings_of,
)
from ._gold_places import GoldPlace as GoldPlace, has_gold as has_gold
from ._of_run import (
    RunDiagnosis as RunDiagnosis,
    RunRowLoss as RunRowLoss,
    diagnose_run as diagnose_run,
)
from ._oracles import (
    DiagnosedRow as DiagnosedRow,
    DiagnosisCase as DiagnosisCase,
    Lost as Lost,
    Stage as Stage,
    diagnosed_row as diagnosed_row,
    pool_depth as pool_depth,
    stage_names as stage_names,
)
