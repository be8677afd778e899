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
from ._drafting import Drafting, draft_plan
from ._gold import project_testset
from ._ingest import IngestForecast, IngestProgress, IngestReport
from ._job_history import JobRun, NoticeSent, StepRun
from ._job_options import JobOptions, ProjectJob
from ._job_runs import run_lines, told_time
from ._jobs import JobCall, Jobs, ListedJob
from ._opened import Session
from ._output_export import export_outputs
from ._output_records import (
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
)
from ._outputs import (
    SampledOutputs,
    Sampling,
    evaluate_outputs,
    forecast_outputs,
    moment,
    origin_of,
    output_row,
    sample_outputs,
    save_drafts,
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
from ._served import Change, Configuration, Served, current_user
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
    "Drafting",
    "Evaluating",
    "Feedback",
    "Gating",
    "IngestForecast",
    "IngestProgress",
    "IngestReport",
    "JobCall",
    "JobOptions",
    "JobRun",
    "Jobs",
    "KnownRun",
    "ListedJob",
    "NewBatch",
    "NewOutput",
    "NoticeSent",
    "Origin",
    "Output",
    "OutputBatch",
    "OutputHit",
    "OutputKind",
    "OutputQuery",
    "Outputs",
    "PersonaChange",
    "ProjectFolder",
    "ProjectJob",
    "ProjectRecords",
    "Promoted",
    "Promoting",
    "Readership",
    "RecordsReport",
    "Refreshing",
    "Reporting",
    "SampledOutputs",
    "Sampling",
    "Served",
    "Session",
    "SettingChange",
    "Settings",
    "SourceEntry",
    "StepRun",
    "SweepForecast",
    "SweepResult",
    "Sweeping",
    "Synthesizing",
    "Verdict",
    "Workbench",
    "changed_settings",
    "confirm",
    "current_user",
    "doctor",
    "draft_plan",
    "evaluate",
    "evaluate_outputs",
    "export_outputs",
    "forecast_ablation",
    "forecast_diagnosis",
    "forecast_outputs",
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
    "moment",
    "open_results",
    "origin_of",
    "output_row",
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
    "run_lines",
    "run_readers",
    "run_sweep",
    "sample_outputs",
    "save_drafts",
    "stored_trials",
    "synthesize",
    "told_time",
    "variant_of",
    "write_persona",
]
