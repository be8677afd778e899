from ._confirming import (
    Confirmed as Confirmed,
    Confirming as Confirming,
    confirm as confirm,
    forecast_confirm as forecast_confirm,
    run_trials as run_trials,
    stored_verdict as stored_verdict,
)
from ._verdict import (
    Confirmation as Confirmation,
    StudyVerdict as StudyVerdict,
    compared as compared,
    confirmation_body as confirmation_body,
    confirmation_of as confirmation_of,
    settled as settled,
)
