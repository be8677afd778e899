"""Jobs: schedules, runs, notices, and promotion of a configuration."""

from ._history import JOB_TABLES, JobRun, NoticeSent, RunStart, StepRun
from ._jobs import CheckLine, JobCall, Jobs, ListedJob, job_faults, job_findings
from ._notices import Notices, NoticeText, hide_secrets, mask_address
from ._options import JOBS, JobStep, ProjectJob, project_jobs
from ._promotion import (
    PromotionGate,
    PromotionOptions,
    PromotionResult,
    gate_evaluation,
    promote,
    promote_back,
)
from ._runs import Clock, JobRunner, RunListener, RunRequest, run_lines, write_time
from ._schedule import Schedule
from ._server import JobServer
from ._steps import PROGRAM, StepEnd, StepPlan, run_added_step, run_step

__all__ = [
    "JOBS",
    "JOB_TABLES",
    "PROGRAM",
    "CheckLine",
    "Clock",
    "JobCall",
    "JobRun",
    "JobRunner",
    "JobServer",
    "JobStep",
    "Jobs",
    "ListedJob",
    "NoticeSent",
    "NoticeText",
    "Notices",
    "ProjectJob",
    "PromotionGate",
    "PromotionOptions",
    "PromotionResult",
    "RunListener",
    "RunRequest",
    "RunStart",
    "Schedule",
    "StepEnd",
    "StepPlan",
    "StepRun",
    "gate_evaluation",
    "hide_secrets",
    "job_faults",
    "job_findings",
    "mask_address",
    "project_jobs",
    "promote",
    "promote_back",
    "run_added_step",
    "run_lines",
    "run_step",
    "write_time",
]
