from ._outcome import (
    BaselineOutcome as BaselineOutcome,
    DistanceShift as DistanceShift,
    distance_shift as distance_shift,
)
from ._pairs import (
    BaselineResult as BaselineResult,
    DistanceSet as DistanceSet,
    KeptPair as KeptPair,
)
from ._running import (
    Baselining as Baselining,
    forecast_baseline as forecast_baseline,
    run_baseline as run_baseline,
)
