from ._added_steps import run_added_step as run_added_step
from ._alerts import send_alerts as send_alerts
from ._history import (
    JobRun as JobRun,
    NoticeSent as NoticeSent,
    RunStart as RunStart,
    StepRun as StepRun,
)
from ._job_tables import JOB_TABLES as JOB_TABLES
from ._jobs import (
    CheckLine as CheckLine,
    JobCall as JobCall,
    Jobs as Jobs,
    ListedJob as ListedJob,
    job_faults as job_faults,
    job_findings as job_findings,
)
from ._notices import (
    Notices as Notices,
    NoticeText as NoticeText,
    shown_address as shown_address,
    without_secrets as without_secrets,
)
from ._options import (
    JOBS as JOBS,
    JobStep as JobStep,
    ProjectJob as ProjectJob,
    project_jobs as project_jobs,
)
from ._promotion import (
    Gating as Gating,
    Promoted as Promoted,
    Promoting as Promoting,
    gate_evaluation as gate_evaluation,
    promote as promote,
    promote_back as promote_back,
)
from ._runs import (
    Clock as Clock,
    JobRunner as JobRunner,
    RunListener as RunListener,
    RunRequest as RunRequest,
    run_lines as run_lines,
    told_time as told_time,
)
from ._schedule import Schedule as Schedule
from ._server import JobServer as JobServer
from ._steps import (
    PROGRAM as PROGRAM,
    StepEnd as StepEnd,
    StepPlan as StepPlan,
    run_step as run_step,
)
