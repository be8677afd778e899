from ._bench import Bench
from ._calibrations import judge_checks, record_calibration
from ._capabilities import evaluate_testset, forecast_testset, make_suite
from ._diagnosing import Diagnosing, forecast_diagnosis, run_diagnosis
from ._measuring import planned
from ._readership import Readership, forecast_readers, run_readers
from ._scoring import (
    Drawn,
    Each,
    Told,
    evaluate,
    forecast_rows,
    forecast_stored,
    rows_to_score,
    score_stored,
)
from ._synthesis import Synthesizing, forecast_synthesis, import_testset, synthesize

__all__ = [
    "Bench",
    "Diagnosing",
    "Drawn",
    "Each",
    "Readership",
    "Synthesizing",
    "Told",
    "evaluate",
    "evaluate_testset",
    "forecast_diagnosis",
    "forecast_readers",
    "forecast_rows",
    "forecast_stored",
    "forecast_synthesis",
    "forecast_testset",
    "import_testset",
    "judge_checks",
    "make_suite",
    "planned",
    "record_calibration",
    "rows_to_score",
    "run_diagnosis",
    "run_readers",
    "score_stored",
    "synthesize",
]
