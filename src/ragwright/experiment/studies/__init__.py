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
from ._live import KnownSweep, SweepProgress, known_sweeps, stop_sweep
from ._sampling import ListSampler, Sampler, Trial, grid_points, random_points
from ._selection import objective_scores, scale_of, selection_of
from ._study import FACTS, Axis, Range, Study, StudyOptions, load_study, stored_study, study_of
from ._sweeping import (
    Sweeping,
    SweepResult,
    as_swept,
    incumbent_hash,
    run_sweep,
    stored_trials,
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
    "Range",
    "Sampler",
    "Study",
    "StudyOptions",
    "SweepForecast",
    "SweepProgress",
    "SweepResult",
    "Sweeping",
    "TpeSampler",
    "Trial",
    "TrialResult",
    "as_swept",
    "forecast_sweep",
    "grid_points",
    "incumbent_hash",
    "known_sweeps",
    "leaderboard",
    "load_study",
    "objective_scores",
    "objectives_of",
    "pareto_front",
    "random_points",
    "read_study",
    "run_sweep",
    "scale_of",
    "selection_of",
    "stop_sweep",
    "stored_study",
    "stored_trials",
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
