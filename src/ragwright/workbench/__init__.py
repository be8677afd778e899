"""A project opened: configuration, store, runner, ingest, retrieve, ask."""

from __future__ import annotations

from ._ablating import (
    Ablating,
    AblationResult,
    forecast_ablation,
    plan_ablation,
    run_ablation,
)
from ._calibrations import judge_checks, record_calibration
from ._capabilities import make_suite
from ._confirming import Confirmed, Confirming, confirm
from ._diagnosing import Diagnosing, forecast_diagnosis, run_diagnosis
from ._doctor import Check, doctor
from ._gold import project_testset
from ._ingest import IngestForecast, IngestProgress, IngestReport
from ._opened import Session
from ._output_records import (
    Feedback,
    NewBatch,
    NewOutput,
    Origin,
    Output,
    OutputBatch,
    OutputHit,
    OutputQuery,
)
from ._outputs_store import Outputs
from ._persona_files import PersonaChange, persona_change, write_persona
from ._project import ProjectFolder, init_project, project_templates
from ._promotion import Gating, Promoted, Promoting, gate_evaluation, promote, promote_back
from ._readership import Readership, forecast_readers, run_readers
from ._records import ProjectRecords, RecordsReport, Refreshing
from ._rehearsing import SweepForecast, forecast_sweep
from ._reporting import Reporting, report_subject
from ._results import (
    SettingChange,
    changed_settings,
    list_runs,
    open_results,
    rows_to_review,
)
from ._run_names import KnownRun
from ._runs import Evaluating
from ._scoring import evaluate, forecast_rows, rows_to_score
from ._served import Change, Configuration, Served
from ._settings import BudgetOptions, Settings, SourceEntry, load_settings, project_keys
from ._sweeping import (
    Sweeping,
    SweepResult,
    read_study,
    run_sweep,
    stored_trials,
    variant_of,
)
from ._synthesis import Synthesizing, forecast_synthesis, import_testset, synthesize
from ._workbench import Asking, Workbench

__all__ = [
    "Ablating",
    "AblationResult",
    "Asking",
    "BudgetOptions",
    "Change",
    "Check",
    "Configuration",
    "Confirmed",
    "Confirming",
    "Diagnosing",
    "Evaluating",
    "Feedback",
    "Gating",
    "IngestForecast",
    "IngestProgress",
    "IngestReport",
    "KnownRun",
    "NewBatch",
    "NewOutput",
    "Origin",
    "Output",
    "OutputBatch",
    "OutputHit",
    "OutputQuery",
    "Outputs",
    "PersonaChange",
    "ProjectFolder",
    "ProjectRecords",
    "Promoted",
    "Promoting",
    "Readership",
    "RecordsReport",
    "Refreshing",
    "Reporting",
    "Served",
    "Session",
    "SettingChange",
    "Settings",
    "SourceEntry",
    "SweepForecast",
    "SweepResult",
    "Sweeping",
    "Synthesizing",
    "Workbench",
    "changed_settings",
    "confirm",
    "doctor",
    "evaluate",
    "forecast_ablation",
    "forecast_diagnosis",
    "forecast_readers",
    "forecast_rows",
    "forecast_sweep",
    "forecast_synthesis",
    "gate_evaluation",
    "import_testset",
    "init_project",
    "judge_checks",
    "list_runs",
    "load_settings",
    "make_suite",
    "open_results",
    "persona_change",
    "plan_ablation",
    "project_keys",
    "project_templates",
    "project_testset",
    "promote",
    "promote_back",
    "read_study",
    "record_calibration",
    "report_subject",
    "rows_to_review",
    "rows_to_score",
    "run_ablation",
    "run_diagnosis",
    "run_readers",
    "run_sweep",
    "stored_trials",
    "synthesize",
    "variant_of",
    "write_persona",
]
