from ._certificate import (
    Certificate as Certificate,
    certificate_in_force as certificate_in_force,
    certificates as certificates,
    withdraw_promise as withdraw_promise,
)
from ._certify import (
    Candidate as Candidate,
    Plan as Plan,
    Step as Step,
    auc as auc,
    best_plan as best_plan,
    certified_steps as certified_steps,
    plan_of as plan_of,
    risk_bound as risk_bound,
    risk_p as risk_p,
    rows_needed as rows_needed,
)
from ._fingerprint import (
    changes_since as changes_since,
    promised_parts as promised_parts,
    suspending_changes as suspending_changes,
)
from ._guard import guard_of as guard_of
from ._making import (
    Promised as Promised,
    Promising as Promising,
    again as again,
    forecast_promise as forecast_promise,
    make_promise as make_promise,
)
from ._scores import (
    SCORES as SCORES,
    GradedRows as GradedRows,
    RightRule as RightRule,
    graded as graded,
    parse_right_rule as parse_right_rule,
)
