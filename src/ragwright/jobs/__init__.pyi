from ._history import JobRun as JobRun, NoticeSent as NoticeSent, StepRun as StepRun
from ._jobs import (
    CheckLine as CheckLine,
    JobCall as JobCall,
    Jobs as Jobs,
    ListedJob as ListedJob,
    job_findings as job_findings,
)
from ._promotion import (
    Gating as Gating,
    Promoted as Promoted,
    Promoting as Promoting,
    gate_evaluation as gate_evaluation,
    promote as promote,
    promote_back as promote_back,
)
from ._runs import run_lines as run_lines, told_time as told_time
