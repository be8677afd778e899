"""Studies: sweeps and ablations, and their trials."""

from ._forecasting import SweepForecast, forecast_sweep
from ._leaderboard import (
    Objective,
    TrialResult,
    leaderboard,
    objectives_of,
    pareto_front,
    survivors,
    trial_body,
    trial_of,
    trial_result,
)
from ._live import KnownSweep, SweepProgress, list_sweeps, stop_sweep
from ._sampling import ListSampler, Sampler, Trial, grid_points, random_points
from ._selection import objective_scores, scale_of, selection_of
from ._study import (
    FACTS,
    Axis,
    Study,
    StudyOptions,
    SweptRange,
    load_study,
    rebuild_study,
    study_of,
)
from ._sweeping import (
    Sweeping,
    SweepResult,
    incumbent_hash,
    load_trials,
    run_sweep,
    set_swept_values,
    study_rows,
    trial_how,
    trial_plan,
)
from ._tpe import TpeSampler
from ._variants import read_study, variant_of

__all__ = [
    "FACTS",
    "Axis",
    "KnownSweep",
    "ListSampler",
    "Objective",
    "Sampler",
    "Study",
    "StudyOptions",
    "SweepForecast",
    "SweepProgress",
    "SweepResult",
    "Sweeping",
    "SweptRange",
    "TpeSampler",
    "Trial",
    "TrialResult",
    "forecast_sweep",
    "grid_points",
    "incumbent_hash",
    "leaderboard",
    "list_sweeps",
    "load_study",
    "load_trials",
    "objective_scores",
    "objectives_of",
    "pareto_front",
    "random_points",
    "read_study",
    "rebuild_study",
    "run_sweep",
    "scale_of",
    "selection_of",
    "set_swept_values",
    "stop_sweep",
    "study_of",
    "study_rows",
    "survivors",
    "trial_body",
    "trial_how",
    "trial_of",
    "trial_plan",
    "trial_result",
    "variant_of",
]
