from ._ablation import AblationLike, ablation_json, ablation_table
from ._charts import Chart
from ._curves import DoseCurve, curves_json, curves_table
from ._data import (
    ScoredRow,
    calibration_json,
    comparison_json,
    gate_json,
    rows_csv,
    summary_csv,
    summary_json,
)
from ._diagnosis import DiagnosisLike, diagnosis_json, diagnosis_table, lost_rows_text
from ._document import embedded_blocks, embedded_data
from ._junit import gate_junit, rows_junit
from ._pack import unpacked
from ._readers import ReadersLike, readers_json, readers_table
from ._report import Report
from ._subject import Board, Entry, Goal, ResultLike, Subject
from ._text import (
    calibration_table,
    comparison_table,
    gate_table,
    slice_table,
    summary_table,
    text_table,
)
from ._trials import (
    BoardView,
    TrialLike,
    leaderboard_table,
    trial_json,
)
from ._verdicts import ConfirmationLike, VerdictLike, verdict_json, verdict_table

__all__ = [
    "AblationLike",
    "Board",
    "BoardView",
    "Chart",
    "ConfirmationLike",
    "DiagnosisLike",
    "DoseCurve",
    "Entry",
    "Goal",
    "ReadersLike",
    "Report",
    "ResultLike",
    "ScoredRow",
    "Subject",
    "TrialLike",
    "VerdictLike",
    "ablation_json",
    "ablation_table",
    "calibration_json",
    "calibration_table",
    "comparison_json",
    "comparison_table",
    "curves_json",
    "curves_table",
    "diagnosis_json",
    "diagnosis_table",
    "embedded_blocks",
    "embedded_data",
    "gate_json",
    "gate_junit",
    "gate_table",
    "leaderboard_table",
    "lost_rows_text",
    "readers_json",
    "readers_table",
    "rows_csv",
    "rows_junit",
    "slice_table",
    "summary_csv",
    "summary_json",
    "summary_table",
    "text_table",
    "trial_json",
    "unpacked",
    "verdict_json",
    "verdict_table",
]
