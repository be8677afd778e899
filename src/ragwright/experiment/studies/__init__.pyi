from ._forecasting import SweepForecast as SweepForecast, forecast_sweep as forecast_sweep
from ._leaderboard import (
    Objective as Objective,
    TrialResult as TrialResult,
    leaderboard as leaderboard,
    objectives_of as objectives_of,
    pareto_front as pareto_front,
    survivors as survivors,
    trial_body as trial_body,
    trial_of as trial_of,
    trial_result as trial_result,
)
from ._live import (
    KnownSweep as KnownSweep,
    SweepProgress as SweepProgress,
    known_sweeps as known_sweeps,
    stop_sweep as stop_sweep,
)
from ._sampling import (
    ListSampler as ListSampler,
    Sampler as Sampler,
    Trial as Trial,
    grid_points as grid_points,
    random_points as random_points,
)
from ._selection import (
    objective_scores as objective_scores,
    scale_of as scale_of,
    selection_of as selection_of,
)
from ._study import (
    FACTS as FACTS,
    Axis as Axis,
    Range as Range,
    Study as Study,
    StudyOptions as StudyOptions,
    load_study as load_study,
    stored_study as stored_study,
    study_of as study_of,
)
from ._sweeping import (
    Sweeping as Sweeping,
    SweepResult as SweepResult,
    as_swept as as_swept,
    incumbent_hash as incumbent_hash,
    read_study as read_study,
    run_sweep as run_sweep,
    stored_trials as stored_trials,
    study_rows as study_rows,
    trial_how as trial_how,
    trial_plan as trial_plan,
    variant_of as variant_of,
)
from ._tpe import TpeSampler as TpeSampler
