from ._history import JobRun, NoticeSent, StepRun
from ._jobs import CheckLine, JobCall, Jobs, ListedJob, job_findings
from ._runs import run_lines, told_time

__all__ = [
    "CheckLine",
    "JobCall",
    "JobRun",
    "Jobs",
    "ListedJob",
    "NoticeSent",
    "StepRun",
    "job_findings",
    "run_lines",
    "told_time",
]
