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
from ._stored import (
    baseline_runs as baseline_runs,
    known_baselines as known_baselines,
    list_baselines as list_baselines,
    open_baselines as open_baselines,
    stored_baseline as stored_baseline,
    stored_baselines as stored_baselines,
)
